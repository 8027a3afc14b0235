"""Which tables of a catalog are other tables, where a catalog lists the table's own name in another case."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.spark.catalogs import Place
from lakekeeper.spi import TableName
from lakekeeper_iceberg import foreign_tables

HOME = "hdfs://nn/wh/db.db/events"
OWN = f"{HOME}/metadata/00002.metadata.json"


class _Catalog:
    """A catalog that lists ``db.events`` at a location, with this metadata file; it may not load the table."""

    spark = None

    def __init__(self, metadata_file: str, *, fails: bool = False) -> None:
        self._metadata = SimpleNamespace(metadataFileLocation=lambda: metadata_file)
        self._fails = fails

    def load(self, name: str) -> Any:
        assert name == "hive.db.events"
        if self._fails:
            raise OSError("no answer")
        return SimpleNamespace(
            refresh=lambda: None, operations=lambda: SimpleNamespace(current=lambda: self._metadata)
        )


@pytest.mark.parametrize(
    "name, location, catalog, own",
    [
        ("events", HOME, _Catalog("", fails=True), True),
        ("Events", HOME, _Catalog(OWN), True),
        ("Events", HOME, _Catalog(f"{HOME}/metadata/00003.metadata.json"), False),
        ("Events", HOME, _Catalog(OWN, fails=True), False),
        ("Events", f"{HOME}/data", _Catalog(OWN), False),
        ("Other", HOME, _Catalog(OWN), False),
    ],
)
def test_a_name_in_another_case_is_the_table_itself_if_its_metadata_file_is(
    monkeypatch: pytest.MonkeyPatch, name: str, location: str, catalog: Any, *, own: bool
) -> None:
    """Hive and Glue list names in lower case: opened as db.Events, the table counted as a foreign one."""
    listed = Place("hive", ("db",), "events", "iceberg", location)
    monkeypatch.setattr(foreign_tables, "places", lambda *_args: [listed])
    opened = TableName(f"hive.db.{name}", "iceberg", f"hive.db.{name}", "hive", ("db",), name)
    found = foreign_tables.in_catalogs(catalog, opened, (HOME,), None, lambda: OWN)
    assert found == (set() if own else {f"hive.db.events at {location}"})
