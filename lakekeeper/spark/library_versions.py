"""Check, when a table is opened, that the libraries in the session have versions that the adapter is tested with.

Adapters mostly call non-public code of Delta and Iceberg. It may change in any release, and Java reports a mismatch
only when the call is made, which for a commit is after the data was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakekeeper.core.config.options import CONF_PREFIX, resolve
from lakekeeper.core.model.finding import Finding
from lakekeeper.errors import AdapterError
from lakekeeper.spark.jvm import Jvm
from lakekeeper.spark.lines import tested_sparks as tested_sparks  # noqa: PLC0414 - adapters import it from here

ALLOW = "allow-untested-versions"
Versions = Mapping[str, tuple[str, Sequence[str]]]
"""Name of a library → (the version found, the versions that lakekeeper is tested with)."""


def require_tested(jvm: Jvm, table: str, versions: Versions) -> None:
    """Raise AdapterError for an untested version, unless the operator's conf allows it."""
    allowed = jvm.spark.conf.get(CONF_PREFIX + ALLOW, None)
    if allowed is not None and resolve(conf={CONF_PREFIX + ALLOW: allowed}).session.allow_untested_versions:
        return
    for name, (found, tested) in versions.items():
        if found not in tested:
            raise AdapterError(
                f"{table}: the session has {name} {found}, and lakekeeper is tested with {' and '.join(tested)}. "
                f"Start it with that version, or set the Spark conf {CONF_PREFIX}{ALLOW}=true to try this one"
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
