"""Adapters and policies, found by entry points: a new one is a package of its own and changes nothing here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, entry_points, metadata
from typing import Any, cast

from lakekeeper.core.planning.policy import Policy
from lakekeeper.errors import AdapterError, OptionError, nearest
from lakekeeper.spi import Format

DISTRIBUTION = "lakekeeper-spark"
ADAPTERS = "lakekeeper.adapters"
POLICIES = "lakekeeper.policies"


def find_format(provider: str, table: str) -> Format:
    """The adapter for a provider name; AdapterError names the extra to install, or the doubled packages."""
    return cast("Format", _load(ADAPTERS, provider, table))


def installed_formats() -> list[Format]:
    """All adapters that are installed and can be loaded, by name."""
    found = []
    for name in sorted(entry_points(group=ADAPTERS).names):
        with suppress(AdapterError):
            found.append(find_format(name, ""))
    return found


def find_policies(names: Sequence[str]) -> tuple[Policy, ...]:
    """Policies by name, in order; OptionError names the nearest known one."""
    found = []
    for name in names:
        known = _of_group(POLICIES, name)
        if name not in known.names:
            listed = ", ".join(sorted(known.names))
            raise OptionError("policy", name, f"one of {listed}{nearest(name, known.names)}")
        found.append(cast("Policy", _load(POLICIES, name, "")))
    return tuple(found)


def _of_group(group: str, name: str) -> EntryPoints:
    """A group's entry points; those of packages that were installed since, if it lacked the name."""
    known = known_entry_points(group)
    if name not in known.names:
        known_entry_points.cache_clear()
        known = known_entry_points(group)
    return known


@lru_cache
def known_entry_points(group: str) -> EntryPoints:
    """Found once: Python reads the metadata of every installed package, which takes 20 ms."""
    return entry_points(group=group)


def _load(group: str, name: str, table: str) -> Any:
    matches: list[EntryPoint] = list(
        {(e.value): e for e in _of_group(group, name).select(name=name)}.values()
    )
    if not matches:
        installed = ", ".join(sorted(entry_points(group=group).names)) or "none"
        extra = f'python -m pip install "{DISTRIBUTION}[{name}]"'
        other = (
            "lakekeeper maintains tables of the installed formats only (a package adds one by an entry point in the "
            f"group {ADAPTERS})"
        )
        advice = extra if name in _extras() else other
        raise AdapterError(
            f"{table}: no adapter for format '{name}' is installed (installed: {installed}); {advice}",
            missing=name,
        )
    if len(matches) > 1:
        packages = ", ".join(sorted(e.value for e in matches))
        raise AdapterError(
            f"'{name}' is offered by more than one package ({packages}): uninstall all but one"
        )
    try:
        return matches[0].load()
    except ImportError as error:
        raise AdapterError(
            f"'{name}' could not be loaded ({error}): python -m pip install \"{DISTRIBUTION}[{name}]\""
        ) from error


def _extras() -> tuple[str, ...]:
    """Names of the optional parts that this distribution offers."""
    try:
        return tuple(metadata(DISTRIBUTION).get_all("Provides-Extra") or ())
    except PackageNotFoundError:  # run from a source tree that is not installed
        return ()
