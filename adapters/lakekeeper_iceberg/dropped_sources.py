"""Partition specs of which a source column was dropped: Iceberg no longer knows the type of their partition values.

A manifest that any commit writes for such a spec from then on has NULL in their place. Data files and delete files then
disagree about their partition: deleted rows come back, or each scan fails with "Mismatched partition tuples". So no
commit may write one of both kinds of manifest while the other has values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakekeeper.errors import Rejected, Unsupported
from lakekeeper_iceberg.native import Iceberg

_MANIFEST = "org.apache.iceberg.ManifestFile"
_PATH_SPEC_CONTENT = (
    (_MANIFEST, "path", "java.lang.String"),
    (_MANIFEST, "partitionSpecId", "int"),
    (_MANIFEST, "content", "org.apache.iceberg.ManifestContent"),
)
_TYPED_BY_SOURCE = ("identity", "truncate")  # other transforms have a type of their own


def refuse_removal(jvm: Iceberg, table: Any, specs: Iterable[int]) -> None:
    """Raise Unsupported if files of one of the ``specs`` must not be removed: delete files apply to that spec."""
    lossy = without_source(jvm, table.operations().current()).intersection(specs)
    snapshot = table.currentSnapshot() if lossy else None
    if snapshot is None:
        return
    deletes = {int(each.partitionSpecId()) for each in jvm.items(snapshot.deleteManifests(table.io()))}
    for spec in sorted(lossy & deletes):
        raise _refusal(table, spec, "Rewrite the table in one commit, for example by INSERT OVERWRITE")


def refuse_merge(jvm: Iceberg, table: Any, spec: int) -> None:
    """Like :func:`refuse_removal`, for one group: raises Rejected, since groups of other specs may be merged."""
    try:
        refuse_removal(jvm, table, [spec])
    except Unsupported as error:
        raise Rejected(str(error)) from error


def refuse_manifests(jvm: Iceberg, table: Any, base: Any, made: Any) -> None:
    """Raise Unsupported if a snapshot, made on the metadata ``base``, writes such manifests.

    A commit also merges manifests of specs whose files it neither adds nor removes.
    """
    lossy = without_source(jvm, base)
    if not lossy:
        return
    before = base.currentSnapshot()
    known = set() if before is None else {path for path, *_ in _manifests(jvm, table, before)}
    contents: dict[int, set[str]] = {}
    written: set[int] = set()
    for path, spec, content in _manifests(jvm, table, made):
        contents.setdefault(int(spec), set()).add(content)
        if path not in known:
            written.add(int(spec))
    for number in sorted(lossy & written):
        if len(contents[number]) > 1:
            advice = "Set the table property commit.manifest-merge.enabled to false, or rewrite the table in one commit"
            raise _refusal(table, number, advice)


def _manifests(jvm: Iceberg, table: Any, snapshot: Any) -> list[list[str]]:
    return jvm.records(snapshot.allManifests(table.io()), _MANIFEST, _PATH_SPEC_CONTENT)


def refuse_deletes(jvm: Iceberg, table: Any, files: Iterable[Any]) -> None:
    """Raise Unsupported if delete files for one of these data files would have no partition value."""
    lossy = without_source(jvm, table.operations().current())
    for spec in sorted(lossy and lossy.intersection(int(file.specId()) for file in files)):
        raise _refusal(table, spec, "First merge all files: recluster with the policy 'full'")


def without_source(jvm: Iceberg, metadata: Any) -> frozenset[int]:
    """The ids of these specs in a TableMetadata; never the current one: Iceberg refuses to drop its columns."""
    current, schema = int(metadata.defaultSpecId()), metadata.schema()
    return frozenset(
        int(spec.specId())
        for spec in jvm.items(metadata.specs())
        if int(spec.specId()) != current
        and any(
            str(field.transform()).startswith(_TYPED_BY_SOURCE)
            for field in fields_without_source(spec, schema)
        )
    )


def fields_without_source(spec: Any, schema: Any) -> list[Any]:
    """The fields of a partition spec whose source column was dropped."""
    return [field for field in spec.fields() if schema.findField(field.sourceId()) is None]


def _refusal(table: Any, spec: int, advice: str) -> Unsupported:
    return Unsupported(
        str(table.name()),
        f"files of partition spec {spec}, of which a source column was dropped",
        f"Iceberg would lose which deletes apply to them; nothing was written. {advice}",
    )
