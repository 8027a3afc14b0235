"""Every reason that lakekeeper gives, as a code and the sentence that it prints.

A sentence names the facts that its reason carries, with units of :mod:`lakekeeper.core.text.template`. It says why, and
for a block that is left, what it would take. ``tests/core/data/reasons.txt`` shows each with example values.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from lakekeeper.core.text.template import names_in

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing from Python 3.11 on


class Code(str, Enum):
    """What a reason says: the value in JSON and tables, the ``sentence`` in text. It needs the facts ``needed``."""

    sentence: str
    needed: frozenset[str]

    def __new__(cls, value: str, sentence: str) -> Self:
        """A member: the code, and the sentence."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.sentence = sentence
        member.needed = names_in(sentence)
        return member

    # Enum hashes the name; a code equals its text, so it must have the hash of its text.
    __hash__ = str.__hash__
    __str__ = str.__str__

    # Why any policy leaves blocks
    NO_KEY = "no_key", "the table has no cluster key; cluster_by stores one"
    CONSTANT = "constant", "full files of one key value: no merge can improve them"
    NO_STATISTICS = "no_statistics", "no statistics on the key, and the last merge wrote none"
    ORDER_HIDDEN = (
        "order_hidden",
        "merged before; its truncated text statistics hide the order",
    )
    EMPTY_WORKLOAD = "empty_workload", "the workload has no queries, so no merge pays back"
    NO_QUERIES = "no_queries", "queries-per-hour is 0, so no merge pays back"
    MAX_LEVEL = "max_level", "already at max-level {level}"
    FILE_ABOVE_GROUP_LIMIT = (
        "file_above_group_limit",
        "larger than max-file-group-size-bytes ({limit_bytes:bytes})",
    )

    # adaptive
    OVERLAP_PAID = (
        "overlap_paid",
        "overlap has cost queries {overlap_bytes:bytes}; a merge costs {merge_bytes:bytes}",
    )
    LARGE_FILE_PAID = (
        "large_file_paid",
        "reading it whole has cost queries {extra_bytes:bytes}; a split costs {cut_bytes:bytes}",
    )
    ABOVE_GROUP_LIMIT = "above_group_limit", "rewritten alone: larger than a group may be"
    PART_OF_MERGE = "part_of_merge", "one part of a merge that is too large for one group"
    NOT_DUE = (
        "not_due",
        "overlap will pay for a merge within {within_ms:ms} at {queries_per_hour:,.3g} queries/h",
    )
    NOT_DUE_SOON = (
        "not_due_soon",
        "overlap will not pay for a merge within a year at {queries_per_hour:,.3g} queries/h",
    )
    NO_GAIN = "no_gain", "a merge would not reduce what queries read"
    KEY_NOT_FILTERED = "key_not_filtered", "no query filters on the key ({key})"
    OTHER_KEY_FILTERED = (
        "other_key_filtered",
        "queries filter on {column} ({share:percent}), not on the key ({key}): see advise",
    )

    # ranges, peaks
    DEEP = "deep", "{files:count file} of level {level} overlap, depth up to {depth}"
    SHALLOW = (
        "shallow",
        "its level has average depth {depth:.2f} per overlapping point; limit {threshold:g}",
    )
    DEEPER_LEVEL_FIRST = "deeper_level_first", "waits for another level of its partition, which overlaps more"
    NO_ROOM = "no_room", "a merge with any neighbour would exceed the group limits"
    DEEPER_RANGE_FIRST = "deeper_range_first", "other key ranges of its level overlap more"
    NO_PARTNER = "no_partner", "no overlapping file is left to merge with"

    # filters
    LOOKUPS_PAID = (
        "lookups_paid",
        "lookups by {columns} have read {lookup_bytes:bytes} without filters; a rewrite costs {rewrite_bytes:bytes}",
    )
    FILTERS_MISSING = "filters_missing", "no Bloom filter on {columns}"
    HAS_FILTERS = "has_filters", "has its Bloom filters on {columns}"
    LOOKUPS_NOT_PAID = "lookups_not_paid", "lookups by {columns} do not pay for a rewrite yet"
    NO_LOOKUPS = "no_lookups", "no query looks up rows by {columns} (= or IN)"
    NO_WORKLOAD = "no_workload", "no workload is known, so lookups by {columns} are not counted"
    NO_FILTERS = "no_filters", "no property of the table asks for a Bloom filter"

    # sizes
    SMALL_FILES = "small_files", "{files:count small neighbouring file} of level {level}"
    NOT_SMALL = "not_small", "not small: {full_bytes:bytes} or more"
    FEW_NEIGHBOURS = "few_neighbours", "small: needs {more:count more small neighbour}"
    LIGHT_NEIGHBOURS = (
        "light_neighbours",
        "small: merged once its group reaches {factor:.3g} x its size or {full_bytes:bytes}",
    )
    PACKING_COSTS = "packing_costs", "small, but queries would read more from a packed file"

    # deletes
    DELETED_ROWS = "deleted_rows", "{deleted:,} of {rows:count row} deleted ({share:percent})"
    DELETED_ROWS_ABOUT = (
        "deleted_rows_about",
        "about {share:percent} of rows deleted, by up to {delete_files:count delete file}",
    )
    DELETES_PAID = (
        "deletes_paid",
        "reading deletes has cost queries {deletes_bytes:bytes}; a rewrite costs {rewrite_bytes:bytes}",
    )
    NO_DELETES = "no_deletes", "no deletes apply to it"
    FEW_DELETED = "few_deleted", "{share:percent} of rows deleted"
    FEW_DELETED_ABOUT = "few_deleted_about", "about {share:percent} of rows deleted"
    DUE_AT = "due_at", "due at {threshold:percent}"
    DUE_AT_AGE = "due_at_age", "due at {threshold:percent} at an age of {age_ms:ms}"
    DUE_AT_LESS = "due_at_less", "due at {threshold:percent}, and at less as it ages"
    DUE_AGE_UNKNOWN = "due_age_unknown", "due at any share, as its age is unknown"

    # universal, full
    SIZE_AMPLIFICATION = (
        "size_amplification",
        "newer runs hold {newer_bytes:bytes}, over {limit}% of the oldest ({oldest_bytes:bytes})",
    )
    SIZE_RATIO = (
        "size_ratio",
        (
            "the {newest} newest of {runs:count sorted run} hold {bytes:bytes}; the next ({next_bytes:bytes}) exceeds "
            "size ratio {ratio}%"
        ),
    )
    SIZE_RATIO_OF_ALL = "size_ratio_of_all", "all {runs:count sorted run} are within size ratio {ratio}%"
    RUN_COUNT = "run_count", "{runs:count sorted run}, above the limit of {limit}"
    LEVEL_0_FORCED = "level_0_forced", "sorted runs on level 0: {level_0} of {runs:,}"
    NEVER_COMPACTED = "never_compacted", "never fully compacted"
    COMPACTION_INTERVAL = (
        "compaction_interval",
        "last full compaction {since_ms:ms} ago, due every {interval_ms:ms}",
    )
    TOTAL_SIZE = "total_size", "{total_bytes:bytes} in all, kept as one run below {limit_bytes:bytes}"
    INCREMENTAL_SIZE = (
        "incremental_size",
        "{newer_bytes:bytes} newer than level {level}, merged above {limit_bytes:bytes}",
    )
    FULL_COMPACTION = "full_compaction", "full compaction of {runs:count sorted run}"
    GROUP_OF_RUNS = "group_of_runs", "one of {groups:count group} along the key"
    NO_OVERLAP = "no_overlap", "overlaps no file, and is full or has no small neighbour"
    FEW_RUNS = "few_runs", "{runs:count sorted run}; a merge starts at {trigger}"
    BALANCED_RUNS = (
        "balanced_runs",
        "{runs:count sorted run} within size amplification {amplification}% and size ratio {ratio}%",
    )
    OLDER_RUN = "older_run", "only the {newest} newest of {runs:count sorted run} are merged"
    ON_OUTPUT_LEVEL = "on_output_level", "already on level {level}, and no newer run is in its group"
    FULL_SORT = "full_sort", "sorts all {files:count file}"

    # Why the planner leaves blocks
    NOT_CONSIDERED = "not_considered", "not considered by any policy"
    BACKING_OFF = "backing_off", "its partition pauses after a commit conflict"
    FAILED_BEFORE = "failed_before", "a merge failed; a later pass tries again"
    OVER_BUDGET = "over_budget", "over budget-bytes: {budget_bytes:bytes} left in this call"
    OVER_DAILY_BUDGET = (
        "over_daily_budget",
        "over budget-bytes-per-day: {spent_bytes:bytes} rewritten in 24 hours",
    )
    KEY_CHANGE = (
        "key_change",
        "clustered by another key; {round_bytes:bytes} per round (key-change-ratio)",
    )

    # Why nothing that was written for a snapshot may be committed any more
    TABLE_RECREATED = "table_recreated", "the table was dropped and created again"
    LOG_REPLACED = "log_replaced", "the table's log was rolled back or replaced by another one"
    SCHEMA_CHANGED = "schema_changed", "the table's columns, partitioning or row tracking changed"
    KEY_COLUMN_DROPPED = "key_column_dropped", "columns of the key were dropped: {columns}"
    FEATURE_ADDED = "feature_added", "the table now has '{feature}', which is not supported"
    NOT_AN_ANCESTOR = (
        "not_an_ancestor",
        "snapshot {read} is not an ancestor of {current}: expired or rolled back",
    )
    LOG_INCOMPLETE = "log_incomplete", "the log does not show what changed: {error}"

    # What became of a group
    INPUTS_REMOVED = "inputs_removed", "{removed:count input} removed by {winners}"
    ROWS_DELETED = "rows_deleted", "rows of {changed:count input} deleted by {winners}"
    INPUTS_CHANGED = (
        "inputs_changed",
        "{removed:count input} removed, rows of {changed:count input} deleted by {winners}",
    )
    NOT_REPLAYED = "not_replayed", "not replayed: {error}"
    TOO_MANY_DELETED = (
        "too_many_deleted",
        "not replayed: {deleted:,} of {rows:count row} deleted, at most {limit:,} (replay.max-deleted-ratio)",
    )
    SCAN_DISAGREES = (
        "scan_disagrees",
        "not replayed: the log records {deleted:count deleted row}, a scan finds {found:,} (damaged file?)",
    )
    NOT_ALL_FOUND = (
        "not_all_found",
        "not replayed: {found:,} of {deleted:count deleted row} found in the outputs",
    )
    MASK_DISAGREES = (
        "mask_disagrees",
        "not replayed: {deleted:,} of {rows:count row} to be deleted, but {left:,} remain in the outputs",
    )
    MASKED_OTHER_VERSION = (
        "masked_other_version",
        "not replayed: the adapter masked the outputs for another version",
    )
    MERGED_BY_ROWS = "merged_by_rows", "merged by rows in Spark: {cause}"
    MERGED_AGAIN_BY_ROWS = "merged_again_by_rows", "merged again by rows in Spark: {cause}"
    REPLAYED = "replayed", "deletes of {rows:count row} by concurrent commits were replayed"
    CONFLICT = "conflict", "{error}"
    STOPPED_EARLY = "stopped_early", "stopped early, as it could no longer commit"
    FAILED = "failed", "{error}"
    ENDED_BY_ERROR = "ended_by_error", "ended by an error: {error}"
    OUTPUT_TOO_LARGE = (
        "output_too_large",
        (
            "an output still exceeds {limit_bytes:bytes} or max-rows-per-file after {attempts:count attempt}: "
            "{rows:count row}, {bytes:bytes}"
        ),
    )
    ROWS_DIFFER = (
        "rows_differ",
        "the outputs have {written:count row}, the inputs {read:,} live rows: not committed",
    )
    ROWS_NOT_PROVEN = (
        "rows_not_proven",
        "no output was written, but input rows may be live: not committed",
    )

    # Why a vacuum keeps a version
    NEWEST_VERSION = "newest_version", "the newest version"
    BRANCH = "branch", "branch {name}"
    TAG = "tag", "tag {name}"
    LAST_VERSIONS = "last_versions", "one of the last {versions:,} of {branch}"
    WITHIN_RETENTION = "within_retention", "within the retention of {branch}"
    CURRENT_RECENTLY = "current_recently", "was the current version within the last {age_ms:ms}"
    TIME_UNKNOWN = "time_unknown", "its commit time is not known"
    NAMED_BY_CALLER = "named_by_caller", "listed in keep_versions"
    READ_BY_RUN = "read_by_run", "run {run_id} has read it or an earlier version"
    IN_TRASH = "in_trash", "the trash entry '{entry}' can be restored from it"
    UNREAD_BY_STREAM = "unread_by_stream", "the stream with checkpoint {checkpoint} has yet to read it"
    STREAM_SOURCE_UNKNOWN = (
        "stream_source_unknown",
        "a stream that has read nothing yet may read this table: {checkpoint}",
    )
    SINK_POSITION = "sink_position", "the last commit of {sink} (vacuum.sink-retention-hours)"
    SINK_SEARCH = (
        "sink_search",
        "{sink} reads it to find its last commit (vacuum.sink-retention-hours)",
    )
    SINK_HISTORY = (
        "sink_history",
        "{sink} checks deletes against all of {branch} (vacuum.sink-retention-hours)",
    )
    AFTER_KEPT = "after_kept", "after version {version}, which is kept"

    # Why a call ended
    NOTHING_TO_DO = "nothing_to_do", "nothing to do"
    NOTHING_LEFT = "nothing_left", "nothing left to do"
    DRY_RUN = "dry_run", "dry run"
    ONE_ROUND = "one_round", "one round done"
    MAX_ROUNDS = "max_rounds", "max-rounds {rounds} reached"
    BUDGET_SPENT = "budget_spent", "the budget of this call is spent"
    NO_PROGRESS = "no_progress", "the last round made no progress"
    DELETE_FILES_MERGED = "delete_files_merged", "delete files merged"
    DELETE_FILES_NOT_MERGED = "delete_files_not_merged", "delete files not merged: {error}"
    DONE = "done", "done"
    UNDONE = "undone", "run {run} undone"
    STATISTICS_COMPUTED = "statistics_computed", "statistics of {files:count file} computed"
    STATISTICS_DUE = "statistics_due", "dry run: statistics of {files:count file} are due"
    ROWS_EXPIRED = "rows_expired", "{rows:count expired row} deleted"
    ROWS_DUE = "rows_due", "dry run: {files:count file} may have expired rows"
    NONE_EXPIRED = "none_expired", "no row has expired"
    ROWS_CAME_LATE = (
        "rows_came_late",
        "{files:count file} may hold rows that arrived late; they expire next day",
    )
    TRASH_FULL = (
        "trash_full",
        "trash full ({entries}/{most}): empty it or lower vacuum.trash-retention-hours",
    )
    FILES_CHANGED = "files_changed", "the files changed before their statistics were committed"
    FILES_REMAIN = "files_remain", "{files:count file} could not be deleted"
    STOPPED = "stopped", "stopped with {files:count file} left: {error}"
    NO_VERSIONS = "no_versions", "the table has no version yet"
    DEPTH_UNKNOWN = "depth_unknown", "the depth afterwards is not known: {error}"

    # What automatic runs did with a table or a pattern
    DISABLED_ON_TABLE = "disabled_on_table", "the table property lakekeeper.auto.enabled is false"
    PAUSED = "paused", "paused on the service page"
    DISABLED_BY_CONF = "disabled_by_conf", "the conf spark.lakekeeper.auto.enabled is false"
    NO_VERB = "no_verb", "the property lakekeeper.auto.verbs allows no requested verb"
    NO_ADAPTER = "no_adapter", "no adapter for '{format}' is installed; only a pattern matched it"
    NOT_REACHED = "not_reached", "the pass stopped before this table's turn"
    NOTHING_REQUESTED = "nothing_requested", "the table has no cluster key, and no other verb was requested"
    NO_RULE = "no_rule", "the table has no lifecycle rule"
    VERB_NOT_DUE = "verb_not_due", "{verb} is not due"
    GROUPS_DUE = "groups_due", "dry run: {groups:count group} due"
    GROUPS_FAILED = "groups_failed", "{groups:count group} failed"
    REWROTE = "rewrote", "{verb}: {files_before:,} -> {files_after:count file}"
    REWROTE_DEPTH = (
        "rewrote_depth",
        "{verb}: {files_before:,} -> {files_after:count file}, depth {depth_before:g} -> {depth_after:g}",
    )
    MERGED_DELETE_FILES = (
        "merged_delete_files",
        (
            "{verb}: {files_before:,} -> {files_after:count file}, "
            "{delete_files_before:,} -> {delete_files_after:count delete file}"
        ),
    )
    VACUUMED = (
        "vacuumed",
        "vacuum: {versions:count version} expired, {files:count file} deleted ({bytes:bytes})",
    )
    VACUUM_DUE = (
        "vacuum_due",
        "dry run: vacuum would expire {versions:count version} and delete {files:count file} ({bytes:bytes})",
    )
    REFS_EXPIRED = "refs_expired", "expired branches and tags: {refs}"
    NOT_VACUUMED = "not_vacuumed", "vacuum deleted nothing"
    NO_TABLE_MATCHES = "no_table_matches", "no table matches"
    PARKED = (
        "parked",
        "{verb} has failed {failures:count time} since its last success; next attempt in {wait_ms:ms}: {error}",
    )
    QUIET_HOURS = "quiet_hours", "quiet hours: {window}"
    FLEET_BUDGET_SPENT = "fleet_budget_spent", "the budget for all tables is spent ({limit})"
    TABLE_BUDGET_SPENT = "table_budget_spent", "the budget of the table is spent ({limit})"
    LEASED = "leased", "another service is maintaining the table: {owner}"
