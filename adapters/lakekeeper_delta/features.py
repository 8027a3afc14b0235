"""The allow-list of table features, checked before anything is written.

Tables that Delta itself refuses to open are reported in the same words. Delta raises many different Java exceptions for
them, or a decoding error if the protocol action contradicts itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from lakekeeper.errors import LakekeeperError, Unsupported
from lakekeeper.spark.jvm import causes

MAX_READER_VERSION = 3
MAX_WRITER_VERSION = 7

ALLOWED = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
        "invariants",
        "rowTracking",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
        "variantType-preview",
    }
)

# Features that legacy writer versions imply without listing them, in the order of the protocol.
_IMPLIED = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}

_ADVICE = {
    "catalogManaged": "its commits go through the catalog; use the catalog's own maintenance service",
    "catalogOwned-preview": "its commits go through the catalog; use the catalog's own maintenance service",
    "coordinatedCommits-preview": "its commits go through a coordinator",
    "icebergCompatV1": "Iceberg metadata would have to be rewritten with each commit",
    "icebergCompatV2": "Iceberg metadata would have to be rewritten with each commit",
    "icebergCompatV3": "Iceberg metadata would have to be rewritten with each commit",
    "redirectReaderWriter-preview": "the table has moved; open it at its new location",
    "redirectWriterOnly-preview": "the table has moved; open it at its new location",
}


def check(table: str, reader: int, writer: int, named: Iterable[str], properties: Mapping[str, str]) -> None:
    """Raise Unsupported for the first feature, in alphabetical order, that is not on the allow-list.

    ``reader`` and ``writer`` are the protocol versions, which are checked first; ``named`` are the features that the
    protocol lists.
    """
    if reader > MAX_READER_VERSION:
        raise Unsupported(table, f"reader protocol version {reader}")
    if writer > MAX_WRITER_VERSION:
        raise Unsupported(table, f"writer protocol version {writer}")
    for feature in sorted(set(named) - ALLOWED):
        raise Unsupported(table, feature, _advice(feature))
    if properties.get("delta.universalFormat.enabledFormats", "").strip():
        raise Unsupported(table, "universalFormat", _advice("icebergCompatV2"))
    for prefix in ("delta.coordinatedCommits.commitCoordinator", "delta.redirect"):
        if any(key.startswith(prefix) and value for key, value in properties.items()):
            raise Unsupported(
                table, prefix.removeprefix("delta."), "its commits are not written to this log alone"
            )


@contextmanager
def refusals(table: str, protocol: Callable[[], str]) -> Iterator[None]:
    """Context for calls in which Delta reads a table's log: raises Unsupported for what Delta refuses to open.

    ``protocol`` returns the text of the table's protocol action, which not every exception contains.
    """
    try:
        yield
    except LakekeeperError:
        raise
    except Exception as error:
        reason = refused(table, error, protocol)
        if reason is None:
            raise
        raise reason from error


def refused(table: str, error: BaseException, protocol: Callable[[], str] = str) -> Unsupported | None:
    """The error to raise for a table that Delta refuses to open; None for any other error."""
    for name, message in causes(error):
        kind = name.rpartition(".")[2]
        if kind == "DeltaUnsupportedTableFeatureException":
            return Unsupported(
                table, _first_named(message), "this Delta Lake does not know it; nothing was written"
            )
        if "DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH" in message:
            advice = "its metadata enables it, but its protocol does not list it; nothing was written"
            return Unsupported(table, _first_named(message), advice)
        if kind == "InvalidProtocolVersionException" or message.startswith(
            "requirement failed: Mismatched min"
        ):
            advice = "this Delta Lake does not know these versions, or the feature lists contradict them"
            return Unsupported(table, f"protocol {protocol()}".rstrip(), f"{advice}; nothing was written")
        unknown_type = re.search(r"INVALID_JSON_DATA_TYPE\].*'([^'\n]+)' to a data type", message)
        if unknown_type:
            return Unsupported(
                table, f"column type {unknown_type[1]}", "Spark does not know it; nothing was written"
            )
    return None


def _first_named(message: str) -> str:
    """The first, in alphabetical order, of the features listed at the end of a Delta message: ``…: b, a.``"""
    return min(feature.strip() for feature in message.strip().rstrip(".").rpartition(":")[2].split(","))


def supported(writer: int, named: Iterable[str]) -> frozenset[str]:
    """All features in force: those listed, and those that a legacy writer version implies."""
    implied = [
        f for version, names in _IMPLIED.items() if version <= writer < MAX_WRITER_VERSION for f in names
    ]
    return frozenset(named) | frozenset(implied)


def _advice(feature: str) -> str:
    known = _ADVICE.get(feature, "lakekeeper refuses what it does not know")
    return f"{known}; nothing was written"
