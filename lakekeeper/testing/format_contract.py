"""The contract of ``Format``: no outcome and no file is given up in doubt."""

from __future__ import annotations

from lakekeeper.errors import NotFound, Unknown
from lakekeeper.testing.harness import Harness, Selected, needs
from lakekeeper.testing.optional_methods import extra
from lakekeeper.testing.snapshot_contract import KV, keys


class FormatContract(Selected):
    """What the engine relies on outside of one table."""

    @needs("opening")
    def test_an_error_of_another_kind_is_no_lost_race(self, harness: Harness) -> None:
        """After an unknown outcome, a statement that is repeated may add its rows a second time."""
        format_, spark, name = extra(harness.create(KV, [keys(1)])).opening()
        for error in (ValueError("x"), OSError("no answer"), Unknown("no answer"), NotFound(name.text, "x")):
            assert not format_.lost_race(error), error
            assert format_.refused(name.text, error) is None
        assert format_.open(spark, name).table == name.text
        assert [each for each in format_.examine(spark) if not each.found] == []

    @needs("opening", "keep_files")
    def test_a_table_keeps_its_files_if_the_format_says_so(self, harness: Harness) -> None:
        table = harness.create(KV, [keys(1)])
        format_, spark, name = extra(table).opening()
        assert format_.keeps_files(spark, name, lambda _: ()) == ""
        extra(table).keep_files()
        assert format_.keeps_files(spark, name, lambda _: ())
