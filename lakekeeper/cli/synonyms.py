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
    "options": "docs/reference/options.md in the repository, which lists them",
    "set-cluster-key": "cluster-by",
}
_UNKNOWN = re.compile(r"No such command '([\w-]+)'\.")


def with_hint(message: str, command: str) -> str:
    """A usage error with a remedy: our command for that of another tool, or the help of an incomplete ``command``.

    Our command replaces a suggestion by spelling: ``expire-rows`` deletes rows, ``expire-snapshots`` does not.
    """
    found = _UNKNOWN.search(message)
    ours = COMMANDS.get(found[1].lower().replace("_", "-")) if found else None
    if found and ours:
        return f"{found[0]} See {ours}"
    return f"{message} See {command} --help" if message.startswith("Missing ") else message
