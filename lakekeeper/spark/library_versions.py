"""Check, when a table is opened, that the libraries in the session have versions that the adapter is tested with.

Adapters mostly call non-public code of Delta and Iceberg. It may change in any release, and Java reports a mismatch
only when the call is made, which for a commit is after the data was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lakekeeper.core.config.options import CONF_PREFIX, set_by, spellings
from lakekeeper.core.model.finding import Finding
from lakekeeper.errors import AdapterError
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.lines import LINES, line_of, nearest_line
from lakekeeper.spark.surface import Surface, missing_members

ALLOW = "allow-untested-versions"
Versions = Mapping[str, tuple[str, Sequence[str]]]
"""Name of a library → (the version found, the versions that lakekeeper is tested with)."""


def versions_in_session(jvm: Jvm, library: str, found: str, jar: str) -> Versions:
    """The found and the tested versions of Spark and of a library, the latter for the session's release line of Spark.

    ``jar`` names the library in `lakekeeper.spark.lines`.
    """
    spark = str(jvm.spark.version)
    line = line_of(spark)
    with_library = tuple(each for each in LINES if jar in each.jars)
    tested = with_library if line is None or line not in with_library else (line,)
    return {
        "Spark": (spark, tuple(each.spark for each in with_library)),
        library: (found, tuple(each.version(jar) for each in tested)),
    }


def package_of(jvm: Jvm, jar: str) -> str:
    """The Maven coordinates of a library's jar for the session's release line of Spark, or the nearest one."""
    return nearest_line(str(jvm.spark.version)).jars[jar]


def require_tested(jvm: Jvm, table: str, versions: Versions, surface: Callable[[], Surface]) -> None:
    """Raise AdapterError for an untested version, unless the operator's conf allows it.

    An allowed version also raises it if the session's jars lack a private member of ``surface``.
    """
    untested = {name: found for name, (found, tested) in versions.items() if found not in tested}
    if not untested:
        return
    given = {key: jvm.spark.conf.get(key, None) for key in spellings(ALLOW, CONF_PREFIX)}
    if set_by({key: value for key, value in given.items() if value is not None}, ALLOW):
        _require_members(jvm, table, untested, surface())
        return
    for name, (found, tested) in versions.items():
        if found not in tested:
            raise AdapterError(
                f"{table}: the session has {name} {found}, and the table's format is tested with "
                f"{' or '.join(tested)}. Start a session with a tested version, or set the Spark conf "
                f"{CONF_PREFIX}{ALLOW}=true to try this one"
            )


def _require_members(jvm: Jvm, table: str, untested: Mapping[str, str], surface: Surface) -> None:
    lacking = missing_members(jvm, surface)
    if lacking:
        named = " and ".join(f"{name} {found}" for name, found in untested.items())
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise AdapterError(
            f"{table}: {named} cannot be used: the session lacks {lacking[0]}{more}, which lakekeeper calls. "
            "Start a session with a tested version"
        )


def version_findings(versions: Versions) -> list[Finding]:
    """Findings of ``lakekeeper doctor``: each version, and whether it is tested."""
    advice = f"start the session with a tested version, or set {CONF_PREFIX}{ALLOW}=true to try this one"
    return [
        Finding(
            f"{name} in session",
            found in tested,
            found,
            " or ".join(tested),
            "" if found in tested else advice,
        )
        for name, (found, tested) in versions.items()
    ]
