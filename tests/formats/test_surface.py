"""The private Java members that the adapters use are listed, and the session's jars have them."""

from __future__ import annotations

from importlib import import_module

import pytest

import lakekeeper as lk
from lakekeeper.core.config.options import CONF_PREFIX
from lakekeeper.errors import AdapterError
from lakekeeper.spark import library_versions
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.surface import Surface, missing_members, parse
from tests.formats.lakes import Lake
from tests.oracles.java_calls import recorded

_PRIVATE = {"delta": "org.apache.spark.sql.delta.", "iceberg": "org.apache.iceberg."}


@pytest.fixture
def surface(lake: Lake) -> Surface:
    package = "lakekeeper_iceberg" if lake.iceberg else "lakekeeper_delta"
    found: Surface = import_module(f"{package}.surface").of_session(Jvm(lake.spark))
    return found


def test_the_jars_have_every_member_that_is_listed(lake: Lake, surface: Surface) -> None:
    assert missing_members(Jvm(lake.spark), surface) == []


def test_a_missing_member_is_named(lake: Lake) -> None:
    listed = parse(
        "java.util.ArrayList: add/1 add/7 new/0 new/9 .size .sizes\norg.example.Gone: a/1\njava.util.List: size/0"
    )
    assert missing_members(Jvm(lake.spark), listed) == [
        "java.util.ArrayList.sizes",
        "java.util.ArrayList.add/7",
        "java.util.ArrayList.new/9",
        "org.example.Gone",
    ]


@pytest.mark.slow
def test_every_private_member_that_a_run_calls_is_listed(
    lake: Lake, surface: Surface, merged_by: str
) -> None:
    name = lake.overlapping(4, 60)
    lake.spark.sql(f"ALTER TABLE {name} ADD COLUMN x DOUBLE")
    with recorded(_PRIVATE["iceberg" if lake.iceberg else "delta"]) as calls:
        table = lk.table(lake.spark, name)
        table.cluster_by("k")
        table.compute_statistics(["k"], options={"statistics.min-changed-ratio": 0})
        table.delete("id % 9 = 1")
        [run] = table.recluster(policy="full").run_ids
        table.undo(run, allow_rollback=True)
        table.recluster(policy="full")
        table.delete("id % 9 = 2")
        table.merge_deletes()
        table.vacuum(dry_run=True)
    assert len(calls.seen) > 20
    # Iceberg objects are used through the interfaces of its API.
    private = {c for c in calls.on_classes if ".relocated." not in c[0]} if lake.iceberg else calls.seen
    jvm = Jvm(lake.spark)
    missing = [call for call in sorted(private) if not _listed(jvm, surface, *call)]
    assert missing == [], "\n".join(map(str, missing))


def _listed(jvm: Jvm, surface: Surface, kind: str, member: str, arguments: int) -> bool:
    """Whether the object's class is, or extends, a listed class that has the called member."""
    wanted = f"{member}/{arguments}"
    load = jvm.view.org.apache.spark.util.Utils.classForName
    called = load(kind, False, False)
    return any(
        wanted in members and (name == kind or load(name, False, False).isAssignableFrom(called))
        for name, members in surface.items()
    )


def test_an_untested_version_that_lacks_a_member_is_refused_by_its_name(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = lake.create("id bigint")
    home = "lakekeeper_iceberg" if lake.iceberg else "lakekeeper_delta"
    monkeypatch.setattr(f"{home}.surface.of_session", lambda _jvm: {"org.example.Gone": {"a/1"}})
    monkeypatch.setattr(f"{home}.opening._versions", lambda _jvm: {"A library": ("9.9.0", ("4.3.1",))})
    lake.spark.conf.set(CONF_PREFIX + library_versions.ALLOW, "true")
    try:
        with pytest.raises(
            AdapterError, match=r"A library 9\.9\.0 cannot be used: .* lacks org\.example\.Gone"
        ):
            lk.table(lake.spark, name)
    finally:
        lake.spark.conf.unset(CONF_PREFIX + library_versions.ALLOW)
