"""What the error of a catalog says about a commit: lost, refused, or not known. No JVM is needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakekeeper.errors import CommitError, Conflict, NotSent, Rejected, Unknown
from lakekeeper_iceberg.commit import certain_failure, is_lost_race, send
from lakekeeper_iceberg.metadata import compact_metadata
from lakekeeper_iceberg.native import Iceberg

_ICEBERG = "org.apache.iceberg.exceptions."


class JavaError(Exception):
    """An error as py4j raises it, with the classes and messages of an exception and its causes, outermost first."""

    def __init__(self, *chain: tuple[str, str]) -> None:
        super().__init__("An error occurred while calling o68.execute.")
        (name, message), *causes = chain
        self.java_exception: Any = SimpleNamespace(
            getClass=lambda: SimpleNamespace(getName=lambda: name),
            getMessage=lambda: message,
            getCause=lambda: JavaError(*causes).java_exception if causes else None,
        )


LOST = JavaError((f"{_ICEBERG}CommitFailedException", "metadata location has changed"))
BUSY = JavaError(
    ("org.apache.iceberg.jdbc.UncheckedSQLException", "Unknown failure"),
    ("org.sqlite.SQLiteException", "[SQLITE_BUSY] The database file is locked"),
)
REFUSED = JavaError((f"{_ICEBERG}ForbiddenException", "no right to write"))
IN_DOUBT = JavaError(
    (f"{_ICEBERG}CommitStateUnknownException", "metadata location has changed"),
    (f"{_ICEBERG}CommitFailedException", "a cause"),
)
GONE = JavaError(
    ("org.apache.iceberg.jdbc.UncheckedSQLException", "Unknown failure"),
    ("java.sql.SQLNonTransientConnectionException", "the connection was closed after the UPDATE"),
)
JOB = JavaError(
    ("org.apache.spark.SparkException", "Job aborted"),
    (f"{_ICEBERG}NotFoundException", "m0.avro does not exist"),
)
JOB_IN_DOUBT = JavaError(
    ("org.apache.spark.SparkException", "x"), (f"{_ICEBERG}CommitStateUnknownException", "y")
)


@pytest.mark.parametrize(
    "error, lost", [(LOST, True), (BUSY, True), (REFUSED, False), (IN_DOUBT, False), (GONE, False)]
)
def test_both_readings_of_an_error_agree(error: Exception, lost: bool) -> None:
    """A lock of SQLite's file was a lost race to commits, and not to the statements of users that are tried again."""
    assert is_lost_race(error) is lost
    if error in (IN_DOUBT, GONE):
        with pytest.raises(Unknown):
            certain_failure("t", error)
    else:
        assert certain_failure("t", error)[0] is lost


def nine_manifests(version: int = 2) -> Any:
    """A table whose nine manifests are worth rewriting."""
    manifests = [SimpleNamespace(partitionSpecId=lambda: 0, length=lambda: 100) for _ in range(9)]
    metadata = SimpleNamespace(
        defaultSpecId=lambda: 0, schema=lambda: None, specs=list, formatVersion=lambda: version
    )
    return SimpleNamespace(
        refresh=lambda: None,
        operations=lambda: SimpleNamespace(current=lambda: metadata),
        currentSnapshot=lambda: SimpleNamespace(dataManifests=lambda _: manifests),
        properties=dict,
        io=lambda: None,
    )


@pytest.mark.parametrize(
    "version, repeats, keeps, code",
    [(2, True, True, "manifests_repeated"), (3, False, False, "manifests_lose_row_ids")],
)
def test_manifests_are_kept_where_iceberg_would_do_damage(
    version: int, repeats: bool, keeps: bool, code: str
) -> None:
    """Losses L141, L142: a JDBC client that repeats a commit, and Iceberg before 1.12 on a table with row ids."""
    jvm: Any = SimpleNamespace(
        text_map=dict, items=list, repeats_commits=lambda _: repeats, keeps_row_ids=lambda: keeps
    )
    done = compact_metadata(jvm, nine_manifests(version), "t", dry_run=False)
    assert (done.version, done.files_before, done.files_after, done.reason.code) == (None, 9, 9, code)


@pytest.mark.parametrize(
    "kind, url, repeats",
    [
        ("JdbcTableOperations", "jdbc:postgresql://db/catalog", True),
        ("JdbcTableOperations", "jdbc:mysql://db/catalog", True),
        ("JdbcTableOperations", "jdbc:sqlite:catalog.db", False),
        ("RESTTableOperations", "", True),
        ("NessieTableOperations", "", True),
        ("HadoopTableOperations", "", False),
    ],
)
def test_catalogs_that_may_repeat_a_commit(kind: str, url: str, repeats: bool) -> None:
    fields = {"connections": "pool", "dbUrl": url}
    jvm: Any = SimpleNamespace(hidden_field=lambda _item, _cls, name: fields[name])
    jvm.over_http = lambda table: Iceberg.over_http(jvm, table)
    operations = SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: kind))
    table = SimpleNamespace(operations=lambda: operations)
    assert Iceberg.repeats_commits(jvm, table) is repeats


@pytest.mark.parametrize(
    "error, expected",
    [
        (LOST, Conflict),
        (BUSY, Conflict),
        (REFUSED, Rejected),
        (JOB, Rejected),
        (IN_DOUBT, Unknown),
        (JOB_IN_DOUBT, Unknown),
        (GONE, Unknown),
    ],
)
def test_a_rewrite_of_manifests_is_refused_only_if_nothing_was_committed(
    error: Exception, expected: type[CommitError]
) -> None:
    """A connection that was lost after the UPDATE of a JDBC catalog counted as a refusal."""

    def execute() -> Any:
        raise error

    action: Any = SimpleNamespace(specId=lambda _: action, execute=execute)
    actions = SimpleNamespace(rewriteManifests=lambda _: action)
    jvm: Any = SimpleNamespace(
        static=lambda *_: lambda _: actions,
        session=None,
        text_map=dict,
        items=list,
        repeats_commits=lambda _: False,
    )
    with pytest.raises(expected) as raised:
        compact_metadata(jvm, nine_manifests(), "t", dry_run=False)
    assert type(raised.value) is expected
    assert ("is not known" in str(raised.value)) is (expected is Unknown)


def test_metadata_that_cannot_be_built_is_no_unknown_outcome() -> None:
    """Iceberg refuses a snapshot that is over a minute older than the last one, of a writer whose clock is ahead."""

    def refused(_: Any) -> Any:
        raise JavaError(
            ("java.lang.IllegalArgumentException", "Invalid update timestamp 1: before last snapshot 2")
        )

    jvm: Any = SimpleNamespace(
        has_missed_a_version=lambda _: False,
        api=SimpleNamespace(TableMetadata=SimpleNamespace(buildFrom=refused)),
    )
    table = SimpleNamespace(operations=lambda: None)
    with pytest.raises(NotSent, match=r"could not be prepared: .*Invalid update timestamp"):
        send(jvm, table, "t", object(), object())
