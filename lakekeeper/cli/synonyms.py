"""Hints for users who type the name of another tool's command."""

from __future__ import annotations

import re

COMMANDS = {
    "analyze": "info",
    "describe": "info",
    "optimize": "recluster, or compact for small files",
    "rewrite-data-files": "recluster, or compact for small files",
    "zorder": "recluster --columns",
    "purge": "merge-deletes",
    "rewrite-position-delete-files": "merge-deletes",
    "rewrite-manifests": "compact-metadata",
    "checkpoint": "compact-metadata",
    "expire-snapshots": "vacuum",
    "remove-orphan-files": "vacuum --orphans",
    "restore": "trash restore",
    "undrop": "trash restore",
    "rollback": "undo",
    "options": "docs/reference/options.md and conf/lakekeeper-defaults.conf",
    "set-cluster-key": "cluster-by",
}
_UNKNOWN = re.compile(r"No such command '([\w-]+)'\.")


def hint(message: str) -> str:
    """What to use instead of an unknown command, after a space; empty for any other message."""
    found = _UNKNOWN.search(message)
    ours = COMMANDS.get(found[1].lower().replace("_", "-")) if found else None
    return f" See {ours}" if ours else ""
