"""Generated files match the code that generates them."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.main

from lakekeeper.cli import app
from lakekeeper.cli.values import properties_file
from lakekeeper.core.config.options import CONF_PREFIX, OPTIONS, resolve
from lakekeeper.engine.auto_settings import settings_from

ROOT = Path(__file__).parents[2]


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_reference", ROOT / "tools" / "generate_reference.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "made, name",
    [("defaults_conf", "conf/lakekeeper-defaults.conf"), ("options_page", "docs/reference/options.md")],
)
def test_generated_from_the_table_of_options(made: str, name: str) -> None:
    assert (ROOT / name).read_text() == getattr(_generator(), made)(), "run: make generate"


def test_the_conf_file_uncommented_is_the_defaults(tmp_path: Path) -> None:
    text = (ROOT / "conf" / "lakekeeper-defaults.conf").read_text()
    given = re.findall(rf"^# ({re.escape(CONF_PREFIX)}\S+  \S.*)$", text, re.MULTILINE)
    file = tmp_path / "all.conf"
    file.write_text("\n".join(given))
    resolved = resolve(conf=properties_file(file))
    assert len(given) == sum(option.text(option.default) != "" for option in OPTIONS)
    assert set(resolved.origins.values()) == {"conf", "default"}
    assert all(option.of(resolved) == option.default for option in OPTIONS)


def _commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix}{name} ")
        else:
            yield prefix + name, command


def test_the_page_of_commands_has_every_option() -> None:
    # The wording of the help depends on the version of Typer; the names are ours.
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    sections = dict(re.findall(r"^## lakekeeper ([\w -]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    commands = dict(_commands(typer.main.get_command(app)))
    assert set(sections) == set(commands)
    for name, command in commands.items():
        listed = [p for p in command.params if not getattr(p, "hidden", False)]
        options = {o for p in listed for o in p.opts if o.startswith("--")}
        documented = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", sections[name], re.MULTILINE)) - {"--help"}
        assert documented == options, f"{name}: run make generate"


def test_auto_accepts_the_example_conf() -> None:
    confs = properties_file(ROOT / "conf" / "auto.example.conf")
    ours = {key: value for key, value in confs.items() if key.startswith(CONF_PREFIX)}
    settings = settings_from(resolve(conf=ours))
    assert settings.tables == ("demo/delta/flights", "ice.demo.*")
    assert settings.pause_seconds == 900
