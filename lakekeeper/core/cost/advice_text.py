"""Advice on cluster keys as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakekeeper.core.text.formatting import duration, indent, size, table

if TYPE_CHECKING:
    from lakekeeper.core.cost.key_advisor import Advice


def render_advice(advice: Advice) -> str:
    """Advice on one page: the verdict, the keys that were compared, and the columns that cannot be keys."""
    now = advice.now
    lines = [
        f"{advice.table}: " + (f"clustered by {advice.key}" if advice.key else "no cluster key"),
        f"  for {advice.basis}",
        f"  a query reads {now.files:,.2f} files, {size(now.bytes)}",
    ]
    best = advice.best
    if best is not None:
        after = best.worth.after
        lines.append(
            f"  recommended key: {best}: {after.files:,.2f} files, {size(after.bytes)}; "
            f"a full rewrite pays for itself in {duration(best.worth.pays_back_seconds or 0)}"
        )
    else:
        lines.append("  no other key would be much better for these queries")
    if advice.candidates:
        rows = [("key", "files/query", "bytes/query", "saved", "work", "payback", "score")]
        for one in advice.candidates:
            worth, back = one.worth, one.worth.pays_back_seconds
            rows.append(
                (
                    f"{one} (current)" if one.present else str(one),
                    f"{worth.after.files:,.2f}",
                    size(worth.after.bytes),
                    f"{1 - worth.after.cost / worth.before.cost:.0%}" if worth.before.cost else "",
                    size(worth.work),
                    duration(back) if back is not None else "never",
                    f"{worth.score:.0f}",
                )
            )
        lines += [
            "  with the whole table sorted by:",
            indent(table(rows, right=frozenset({1, 2, 3, 4, 5, 6}))),
        ]
    if advice.filtered:
        shares = ", ".join(f"{c} {share:.0%}" for c, share in list(advice.filtered.items())[:8])
        lines.append(f"  filtered    {shares}")
    lines += [f"  not a key   {column}: {why}" for column, why in advice.missing.items()]
    lines += [f"  note        {note}" for note in advice.notes]
    return "\n".join(lines)
