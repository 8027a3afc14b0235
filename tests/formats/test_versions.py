"""Tables open only with the versions of Spark, Delta Lake and Iceberg that lakekeeper is tested with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import lakekeeper as lk
from lakekeeper.core.config.options import CONF_PREFIX
from lakekeeper.errors import AdapterError
from lakekeeper.spark import library_versions
from tests.formats.lakes import Lake

ALLOW = CONF_PREFIX + library_versions.ALLOW


@pytest.fixture
def untested(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """A session with another release of the format than lakekeeper is tested with."""
    name = "lakekeeper_iceberg.opening" if lake.iceberg else "lakekeeper_delta.opening"
    library = "Iceberg" if lake.iceberg else "Delta Lake"
    monkeypatch.setattr(f"{name}._versions", lambda _jvm: {library: ("9.9.0", ("4.3.1",))})
    yield lake
    lake.spark.conf.unset(ALLOW)


def test_an_untested_version_is_refused_when_a_table_is_opened(untested: Lake) -> None:
    name = untested.create("id bigint")
    with pytest.raises(
        AdapterError, match=r"9\.9\.0, and the table's format is tested with 4\.3\.1.*allow-untested-versions"
    ):
        lk.table(untested.spark, name)


def test_the_operator_may_allow_an_untested_version(untested: Lake) -> None:
    name = untested.create("id bigint")
    untested.spark.conf.set(ALLOW, "true")
    lk.table(untested.spark, name)


def test_a_table_property_does_not_allow_an_untested_version(untested: Lake) -> None:
    name = untested.create("id bigint")
    untested.spark.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES ('lakekeeper.{library_versions.ALLOW}' = 'true')"
    )
    with pytest.raises(AdapterError, match=r"9\.9\.0"):
        lk.table(untested.spark, name)


def test_the_versions_of_this_session_are_tested(lake: Lake) -> None:
    lk.table(lake.spark, lake.create("id bigint"))
