"""Bloom filters that Delta's writer adds: Parquet's own settings, as table properties or in the session."""

from __future__ import annotations

from collections.abc import Mapping

from lakekeeper.columnar.bloom import UNFIT, lacking
from lakekeeper.core.model.keys import KeyColumn
from lakekeeper_delta.columns import physical_step
from lakekeeper_delta.data_files import DataFiles
from lakekeeper_delta.native import Log, State

_ENABLED = "parquet.bloom.filter.enabled"


class DeltaBloomFilters:
    """Implements ``spi.BloomFilters``."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def columns(self) -> tuple[str, ...]:
        """See ``spi.BloomFilters.columns``."""
        return tuple(self._wanted())

    def missing(self, files: Mapping[str, int]) -> frozenset[str]:
        """See ``spi.BloomFilters.missing``."""
        opened = DataFiles(self._log)
        openers = ((path, opened.opener(path, size)) for path, size in files.items())
        wanted = self._wanted().values()
        return lacking(self._log.name, openers, lambda _: wanted)

    def _wanted(self) -> dict[str, str]:
        """Column (Spark SQL spelling) → path in the Parquet schema.

        A setting may name a column, ``…enabled#note``, or concern all others. Parquet knows physical names.
        """
        state = self._log.latest()
        conf = self._log.log.newDeltaHadoopConf().getPropsWithPrefix(_ENABLED)
        settings = {f"{_ENABLED}{name}": str(value) for name, value in dict(conf).items()} | {
            name: value for name, value in state.properties.items() if name.startswith(_ENABLED)
        }
        others = settings.get(_ENABLED, "false")
        return {
            name: physical
            for name, physical in _stored(state).items()
            if settings.get(f"{_ENABLED}#{physical}", others).lower() == "true"
        }


def _stored(state: State) -> dict[str, str]:
    """The top-level columns of a primitive type that files have, by name → physical name; none of ``UNFIT`` types."""
    return {
        KeyColumn((field["name"],), "", "").name: physical_step(state, field)
        for field in state.schema["fields"]
        if isinstance(field["type"], str)
        and field["type"] not in UNFIT
        and field["name"] not in state.partition_columns
    }
