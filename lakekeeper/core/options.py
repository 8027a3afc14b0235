"""Every option: its name, unit, default, range and meaning, in one table.

The conf file under ``conf/`` and the reference page are generated from it, and a test compares them.
Precedence: call > Spark conf ``spark.lakekeeper.<name>`` > table property ``lakekeeper.<name>`` > default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakekeeper.errors import OptionError, nearest

CONF_PREFIX = "spark.lakekeeper."
PROPERTY_PREFIX = "lakekeeper."
MAX_BLOCK_BYTES = 500_000_000  # seed 002: a merged partition above 500 MB is split
MAX_BLOCK_ROWS = 1_000_000  # seed 000: a merged block above 1,000,000 rows is split
_GIB = 1 << 30
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table.

    ``low``/``high`` bound the value, both included. ``scope`` says where it may be set: ``any``,
    ``session`` (call and conf only) or ``table`` (a table property may set it as well, but a conf
    of the session can not loosen it: ``auto.enabled=false`` on a table always wins).
    """

    name: str
    kind: type
    default: Any
    unit: str
    doc: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    scope: str = "any"

    @property
    def keyword(self) -> str:
        """The spelling as a Python name."""
        return self.name.replace("-", "_").replace(".", "_")

    @property
    def expected(self) -> str:
        """What a good value looks like, for messages and pages."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind is bool:
            return "true or false"
        noun = {int: "a whole number", float: "a number", str: "text"}[self.kind]
        if self.low is None and self.high is None:
            return noun
        what = f"a share {self.unit}" if self.unit.startswith("of ") else f"{noun} of {self.unit}"
        high = "…" if self.high is None else f"{self.high:,.16g}"
        return f"{what} from {self.low:,.16g} to {high}"

    def parse(self, value: Any) -> Any:
        """``value`` (typed, or text from a conf) as this option's type; raises OptionError."""
        try:
            parsed = _parse(self.kind, value)
        except (TypeError, ValueError, KeyError):
            raise OptionError(self.name, value, self.expected) from None
        numeric = self.kind in (int, float)
        too_low = numeric and self.low is not None and not parsed >= self.low
        too_high = numeric and self.high is not None and not parsed <= self.high
        if too_low or too_high or (self.choices and parsed not in self.choices):
            raise OptionError(self.name, value, self.expected)
        return parsed


def _parse(kind: type, value: Any) -> Any:
    if kind is bool:
        if isinstance(value, bool):
            return value
        return _BOOLEANS[str(value).strip().lower()]
    if isinstance(value, bool):
        raise TypeError(value)
    if kind is int and isinstance(value, float) and not value.is_integer():
        raise ValueError(value)
    return kind(value)


OPTIONS: tuple[Option, ...] = (
    Option("cluster-by", str, "", "", "Columns of the cluster key, for tables that have none natively."),
    Option(
        "policy",
        str,
        "",
        "",
        "Policies of recluster in order, by name, comma-separated; empty: adaptive. (compact and merge_deletes take one from the call only; else sizes, deletes.)",
    ),
    Option(
        "target-file-size-bytes",
        int,
        128 << 20,
        "bytes",
        "Size at which an output file is cut.",
        1024,
        MAX_BLOCK_BYTES,
    ),
    Option(
        "max-rows-per-file",
        int,
        MAX_BLOCK_ROWS,
        "rows",
        "Rows at which an output file is cut, if the size does not come first.",
        1,
        1 << 40,
    ),
    Option(
        "min-file-size-ratio",
        float,
        0.75,
        "of the target size",
        "A file below this share of the target size is small (Iceberg: 75 %).",
        0.01,
        1.0,
    ),
    Option(
        "min-input-files",
        int,
        2,
        "files",
        "The least number of small neighbours that are packed together while they are fresh.",
        2,
        1 << 20,
    ),
    Option(
        "min-input-files-old",
        int,
        2,
        "files",
        "The same once the oldest of them is old; not below min-input-files: no time factor.",
        2,
        1 << 20,
    ),
    Option(
        "delete-ratio-threshold",
        float,
        0.3,
        "of a file's rows",
        "A fresh file of which at least this share is deleted is written anew by merge_deletes (Iceberg: 0.3).",
        0.0,
        1.0,
    ),
    Option(
        "delete-ratio-threshold-old",
        float,
        0.05,
        "of a file's rows",
        "The same for an old file (seed 001); not below delete-ratio-threshold: no time factor.",
        0.0,
        1.0,
    ),
    Option(
        "threshold-half-life-hours",
        float,
        48.0,
        "hours",
        "After this time a threshold has gone half the way from that of a fresh file to that of an old one.",
        0.01,
        1e9,
    ),
    Option(
        "max-file-group-size-bytes",
        int,
        16 * _GIB,
        "bytes",
        "The most that one group (one merge task) reads.",
        1024,
        1 << 50,
    ),
    Option("max-file-group-input-files", int, 2000, "files", "The most files in one group.", 2, 1 << 20),
    Option(
        "single-task-bytes",
        int,
        512 << 20,
        "bytes",
        "A group up to this size is sorted by one Spark task without a shuffle.",
        1024,
        1 << 40,
    ),
    Option("max-concurrent-file-group-rewrites", int, 5, "groups", "Groups rewritten side by side.", 1, 256),
    Option(
        "depth-threshold",
        float,
        2.0,
        "blocks",
        "A level whose average depth is not above this is clustered well enough. Above level 0 it counts as at least "
        "twice the key's columns: what bounds kept column by column can show of a single sorted run.",
        1.0,
        1e9,
    ),
    Option(
        "depth-threshold-ratio",
        float,
        0.0,
        "of the level's blocks",
        "If above 0: the threshold is this share of the level's block count, but at least 1 (seed 000).",
        0.0,
        1.0,
    ),
    Option(
        "max-level",
        int,
        32,
        "merges",
        "Blocks of this level are not selected any more: bounds how often a row is rewritten.",
        1,
        1000,
    ),
    Option(
        "constant-size-ratio",
        float,
        0.8,
        "of the target size or rows",
        "A block at least this full that is constant in the key is frozen (level -1).",
        0.01,
        1.0,
    ),
    Option(
        "adaptive.setting",
        str,
        "balanced",
        "",
        "How much rewriting the policy adaptive buys pruning with.",
        choices=("economy", "balanced", "aggressive"),
    ),
    Option(
        "adaptive.lambda",
        float,
        "",
        "rewrites of a file",
        "What one scan of a file costs, for each commit that the table sees; empty: from the workload, else of "
        "adaptive.setting (0.5, 3.5, 5).",
        0.001,
        1e6,
    ),
    Option(
        "adaptive.max-depth",
        int,
        32,
        "blocks",
        "What is deeper is merged at once, whatever it has cost so far; so is what is deeper than 8 and than twice the "
        "median depth.",
        2,
        1 << 20,
    ),
    Option(
        "universal.num-sorted-run.compaction-trigger",
        int,
        5,
        "sorted runs",
        "From how many sorted runs in a partition on the policy universal looks at sizes; of more it merges some.",
        2,
        999,
    ),
    Option(
        "universal.num-levels",
        int,
        "",
        "levels",
        "Levels of the policy universal, level 0 among them; empty: one more than the trigger.",
        2,
        1000,
    ),
    Option(
        "universal.compaction.size-ratio",
        int,
        1,
        "percent",
        "A sorted run is merged with all newer ones unless it is larger than they are by more than this.",
        0,
        1000,
    ),
    Option(
        "universal.compaction.max-size-amplification-percent",
        int,
        200,
        "percent",
        "If the newer sorted runs are larger than this share of the oldest, all become one.",
        1,
        1_000_000,
    ),
    Option(
        "universal.compaction.optimization-interval-ms",
        int,
        0,
        "ms",
        "All sorted runs become one when the last time is longer ago than this; 0: never for that.",
        0,
        1 << 50,
    ),
    Option(
        "universal.compaction.total-size-threshold-bytes",
        int,
        0,
        "bytes",
        "A partition smaller than this has one sorted run; 0: no such rule.",
        0,
        1 << 50,
    ),
    Option(
        "universal.compaction.incremental-size-threshold-bytes",
        int,
        0,
        "bytes",
        "All sorted runs become one when those below the highest level are larger than this; 0: no such rule.",
        0,
        1 << 50,
    ),
    Option(
        "universal.compaction.force-level-0",
        bool,
        False,
        "",
        "If no other rule is due, blocks of level 0 are merged all the same.",
    ),
    Option(
        "key-change-ratio",
        float,
        0.25,
        "of the table's bytes",
        "After a change of the key one round takes in at most this share of blocks clustered by another one, and at "
        "least single-task-bytes. (The policy full takes all.)",
        0.01,
        1.0,
    ),
    Option(
        "budget-bytes",
        int,
        1 << 60,
        "bytes",
        "The most that one call may rewrite; the best tasks first, at least one.",
        1,
        1 << 60,
    ),
    Option(
        "budget-bytes-per-day",
        int,
        1 << 60,
        "bytes",
        "The most that is rewritten on a table in 24 hours; at least one task, and none once so much was rewritten.",
        1,
        1 << 60,
    ),
    Option(
        "workload",
        str,
        "",
        "",
        "Spark event logs (files or directories, comma-separated), or a kept workload: what merges are weighed by.",
        scope="session",
    ),
    Option(
        "queries-per-hour",
        float,
        60.0,
        "queries",
        "How often the table is read, where no workload tells: scores and payback times are in proportion to it.",
        0.0,
        1e9,
    ),
    Option(
        "partial-progress.enabled",
        bool,
        False,
        "",
        "Commit groups as they finish instead of all together at the end.",
    ),
    Option(
        "partial-progress.max-commits",
        int,
        10,
        "commits",
        "With partial progress: the most commits of one call.",
        1,
        1000,
    ),
    Option("commit.retry.num-retries", int, 10, "retries", "How often a lost commit is tried again.", 0, 100),
    Option(
        "commit.retry.min-wait-ms",
        int,
        100,
        "ms",
        "The first pause before a commit is tried again; doubles each time.",
        0,
        3_600_000,
    ),
    Option("commit.retry.max-wait-ms", int, 2_000, "ms", "The longest such pause.", 0, 3_600_000),
    Option(
        "commit.retry.total-timeout-ms",
        int,
        1_800_000,
        "ms",
        "After this long no further attempt is made.",
        0,
        86_400_000,
    ),
    Option(
        "commit.quiet-window-ms",
        int,
        2_000,
        "ms",
        "A commit waits while somebody deleted or updated rows within this time, so that their next statement is not "
        "made to fail by it; 0: never.",
        0,
        3_600_000,
    ),
    Option(
        "commit.quiet-max-wait-ms", int, 10_000, "ms", "The longest such wait of one commit.", 0, 3_600_000
    ),
    Option(
        "early-abort-interval-ms",
        int,
        10_000,
        "ms",
        "How often the log is looked at while working, for groups that can no longer land.",
        0,
        86_400_000,
    ),
    Option(
        "replay.max-deleted-ratio",
        float,
        0.5,
        "of the group's rows",
        "If more rows than this were deleted meanwhile, the group is dropped and planned anew instead of replayed.",
        0.0,
        1.0,
    ),
    Option(
        "replay.max-rows",
        int,
        2_000_000,
        "rows",
        "The most deleted rows that are looked for in the outputs of one group.",
        0,
        1 << 31,
    ),
    Option(
        "max-rounds", int, 100, "rounds", "With final: the most rounds of selection and merge.", 1, 10_000
    ),
    Option(
        "auto.enabled",
        bool,
        True,
        "",
        "Automatic runs on this table; false on a table always wins.",
        scope="table",
    ),
    Option(
        "auto.tables",
        str,
        "",
        "",
        "Tables that automatic runs look at: names or patterns, comma-separated (ice.db.*).",
        scope="session",
    ),
    Option("auto.verbs", str, "recluster,compact,merge_deletes", "", "What automatic runs do, in order."),
    Option("auto.every", str, "15m", "", "Pause between automatic runs (30s, 15m, 2h).", scope="session"),
    Option("auto.final", bool, False, "", "Automatic reclustering repeats until the thresholds hold."),
)

_BY_NAME = {o.name: o for o in OPTIONS}
_BY_KEYWORD = {o.keyword: o for o in OPTIONS}


def lookup(name: str) -> Option:
    """The option of that name (kebab or Python spelling); an unknown one is an error naming the nearest."""
    found = _BY_NAME.get(name) or _BY_KEYWORD.get(name)
    if found is None:
        raise OptionError(name, name, f"a known option{nearest(name, _BY_NAME)}")
    return found


@dataclass(frozen=True, slots=True)
class Options:
    """Resolved values and, for each, where it came from (``call``, ``conf``, ``property``, ``default``)."""

    values: Mapping[str, Any]
    origins: Mapping[str, str]

    def __getitem__(self, name: str) -> Any:
        return self.values[lookup(name).name]

    def integer(self, name: str) -> int:
        """The value of a whole-number option."""
        return int(self[name])

    def number(self, name: str) -> float:
        """The value of a number option."""
        return float(self[name])

    def words(self, name: str) -> tuple[str, ...]:
        """The value of a comma-separated option, empty words left out."""
        return tuple(w.strip() for w in str(self[name]).split(",") if w.strip())

    def with_(self, **changed: Any) -> Options:
        """A copy with some values changed, as if by the call; raises OptionError."""
        parsed = {lookup(k).name: lookup(k).parse(v) for k, v in changed.items()}
        return Options({**self.values, **parsed}, {**self.origins, **dict.fromkeys(parsed, "call")})


def resolve(
    call: Mapping[str, Any] | None = None,
    conf: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> Options:
    """Options from the three places, by precedence.

    ``conf`` and ``properties`` may hold anything; only keys under our prefixes are looked at, and of
    those an unknown one is an error (OptionError naming the nearest). No value is ever a class to load.
    """
    values: dict[str, Any] = {o.name: o.default for o in OPTIONS}
    origins = dict.fromkeys(values, "default")
    for origin, prefix, given in (
        ("property", PROPERTY_PREFIX, properties),
        ("conf", CONF_PREFIX, conf),
        ("call", "", call),
    ):
        for key, value in (given or {}).items():
            if not key.startswith(prefix) or value is None:
                continue
            option = lookup(key[len(prefix) :])
            if origin == "property" and option.scope == "session":
                raise OptionError(key, value, "an option of the session, not of a table")
            parsed = _parse_from(option, key, value)
            if option.name == "auto.enabled" and values[option.name] is False:
                continue  # switched off on the table: nothing switches it on again
            values[option.name] = parsed
            origins[option.name] = origin
    return Options(values, origins)


def _parse_from(option: Option, key: str, value: Any) -> Any:
    try:
        return option.parse(value)
    except OptionError as error:
        raise OptionError(key, value, error.expected) from None
