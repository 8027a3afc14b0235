"""What the catalog would delete with the name of a dropped table."""

from __future__ import annotations

import pytest

from lakekeeper.errors import AdapterError
from lakekeeper.spark.catalogs import Place
from lakekeeper.spi import TableName
from lakekeeper_delta.opening import DeltaFormat

NAME = TableName("c.db.t", "delta", "c.db.t", "c", ("db",), "t")


def keeps_files(location: str, *, external: bool = False) -> str:
    """Of a table at ``/wh/t``, beside another one."""
    tables = [
        Place("c", ("db",), "t", "delta", "s3://lake/wh/t", external=external),
        Place("c", ("db",), "other", "delta", location, external=True),
    ]
    return DeltaFormat().keeps_files(None, NAME, lambda _: tables)


@pytest.mark.parametrize("location", ["s3://lake/wh/t", "s3://lake/wh/t/", "s3://lake/wh/t/inner/table"])
def test_a_table_is_not_purged_with_another_one_in_its_folder(location: str) -> None:
    """Loss L155: of another table, only one at the same location was looked for."""
    with pytest.raises(AdapterError, match=r"c\.db\.other has its files in the same folder"):
        keeps_files(location)
    assert "external table" in keeps_files(location, external=True)


@pytest.mark.parametrize("location", ["s3://lake/wh", "s3://lake/wh/t2", "s3://other/wh/t"])
def test_tables_elsewhere_keep_nothing(location: str) -> None:
    assert keeps_files(location) == ""
