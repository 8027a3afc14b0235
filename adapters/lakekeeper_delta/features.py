"""Which table features lakekeeper works on: an allow-list, asked before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakekeeper.errors import Unsupported

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

# Features that old writer versions imply without naming them, in the order of the protocol.
_IMPLIED = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}

_ADVICE = {
    "catalogManaged": "its commits go through the catalog; let the catalog's own service maintain it",
    "catalogOwned-preview": "its commits go through the catalog; let the catalog's own service maintain it",
    "coordinatedCommits-preview": "its commits go through a coordinator",
    "icebergCompatV1": "Iceberg metadata would have to be rewritten with each commit",
    "icebergCompatV2": "Iceberg metadata would have to be rewritten with each commit",
    "icebergCompatV3": "Iceberg metadata would have to be rewritten with each commit",
    "redirectReaderWriter-preview": "the table has moved; open it at its new place",
    "redirectWriterOnly-preview": "the table has moved; open it at its new place",
}


def check(table: str, reader: int, writer: int, named: Iterable[str], properties: Mapping[str, str]) -> None:
    """Raise Unsupported naming the first feature (in alphabetical order) that is not on the list.

    ``reader`` and ``writer`` are the protocol versions, ``named`` the features that the protocol lists.
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
            raise Unsupported(table, prefix.removeprefix("delta."), "its commits do not go to this log alone")


def supported(writer: int, named: Iterable[str]) -> frozenset[str]:
    """All features in force: those named, and those that an old writer version implies."""
    implied = [
        f for version, names in _IMPLIED.items() if version <= writer < MAX_WRITER_VERSION for f in names
    ]
    return frozenset(named) | frozenset(implied)


def _advice(feature: str) -> str:
    known = _ADVICE.get(feature, "lakekeeper refuses what it does not know")
    return f"{known}; nothing was written"
