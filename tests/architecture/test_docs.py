"""The documents name only what exists: modules, files, links between documents, make targets."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from lakekeeper import spi

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_CODE = re.compile(r"`([^`\n]+)`")
_MODULE = re.compile(r"lakekeeper(_delta|_iceberg)?(\.[a-z_]+)*")
_FILE = re.compile(r"(lakekeeper|adapters|tests|tools|conf|docs|examples)/[\w./-]*")
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def _exists(module: str) -> bool:
    """Whether it is a module, a name bound in the module before its last dot, or a group of entry points."""
    if f'entry-points."{module}"' in (ROOT / "pyproject.toml").read_text():
        return True
    place = Path(*module.split("."))
    for root in (ROOT, ROOT / "adapters"):
        if (root / place).is_dir() or (root / place).with_suffix(".py").is_file():
            return True
    parent, _, name = module.rpartition(".")
    source = (ROOT / Path(*parent.split("."))).with_suffix(".py") if parent else ROOT / "none"
    return source.is_file() and re.search(rf"\b{name}\b", source.read_text()) is not None


def test_every_module_that_the_architecture_names_exists() -> None:
    code = _CODE.findall((ROOT / "docs" / "architecture.md").read_text())
    modules = {word for word in code if "." in word and _MODULE.fullmatch(word)}
    assert len(modules) > 15
    assert [module for module in sorted(modules) if not _exists(module)] == []


def _drawn(text: str) -> set[str]:
    """Modules of a tree drawn by indentation; a name that ends with a slash is a package."""
    modules, packages = set(), [""] * 3
    for line in text.splitlines():
        if not line:
            continue
        depth, name = (len(line) - len(line.lstrip())) // 2, line.split()[0]
        path = "".join(packages[:depth]) + name
        if name.endswith("/"):
            packages[depth:] = [name] + [""] * (len(packages) - depth - 1)
        else:
            modules.add(path)
    return modules


def test_the_tree_in_the_architecture_is_the_tree_on_disk() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    trees = re.findall(r"^```\n(lakekeeper/.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(trees) == 1
    modules = {
        path.relative_to(ROOT).with_suffix("")
        for root in ("core", "engine")
        for path in (ROOT / "lakekeeper" / root).rglob("*.py")
        if path.stem != "__init__"
    }
    policies = "lakekeeper/core/planning/policies"
    assert _drawn(trees[0]) == {str(path) for path in modules if str(path.parent) != policies}
    (listed,) = re.findall(r"^ +policies/ +the built-in policies: (.*)$", trees[0], re.MULTILINE)
    assert listed.split(", ") == sorted(path.name for path in modules if str(path.parent) == policies)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_files_exist(document: Path) -> None:
    text = document.read_text()
    links = [link for link in _LINK.findall(text) if not (document.parent / link).exists()]
    files = [word for word in _CODE.findall(text) if _FILE.fullmatch(word) and not (ROOT / word).exists()]
    assert (links, files) == ([], [])


def test_every_make_target_named_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name
        for path in DOCUMENTS
        for name in re.findall(r"^ *make ([a-z]+)|`make ([a-z]+)`", path.read_text())
    }
    assert {one or other for one, other in named} <= targets


def test_the_page_for_adapters_shows_each_member_with_its_arguments() -> None:
    protocols = (
        spi.Format,
        spi.Adapter,
        spi.RowDeletes,
        spi.Restores,
        spi.Undos,
        spi.Statistics,
        spi.BloomFilters,
        spi.Columnar,
        spi.Notes,
        spi.Storage,
    )
    shown = set(_CODE.findall((ROOT / "docs" / "write-an-adapter.md").read_text()))
    missing = []
    for protocol in protocols:
        for name, member in vars(protocol).items():
            if name.startswith("_"):
                continue
            arguments = list(inspect.signature(member).parameters)[1:] if callable(member) else None
            code = name if arguments is None else f"{name}({', '.join(arguments)})"
            if code not in shown:
                missing.append(f"{protocol.__name__}.{code}")
    assert missing == []


def test_the_decisions_are_listed() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    listed = re.findall(r"^\* .*\(adr/(.+)\)$", text, re.MULTILINE)
    assert listed == [path.name for path in sorted((ROOT / "docs" / "adr").glob("*.md"))]


def test_the_decisions_have_their_four_parts() -> None:
    for path in sorted((ROOT / "docs" / "adr").glob("*.md")):
        headings = re.findall(r"^## (.+)$", path.read_text(), re.MULTILINE)
        assert headings[:4] == ["Status", "Context", "Decision", "What we did not do"], path.name
