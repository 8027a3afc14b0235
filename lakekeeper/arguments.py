"""From the arguments of a call to the request that the engine carries out; everything is checked before any work."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lakekeeper.core.config.options import (
    CONF_PREFIX,
    PROPERTY_PREFIX,
    Options,
    lookup,
    overridden,
    resolve,
    spellings,
)
from lakekeeper.core.model.keys import parse_layout
from lakekeeper.engine.merge.backoff import Backoff
from lakekeeper.engine.merge.request import Request
from lakekeeper.engine.plugins import find_policies
from lakekeeper.errors import OptionError, RetentionError
from lakekeeper.spark.streaming_offsets import streams_of

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from lakekeeper.core.vacuum.retention import Stream

VERB_POLICIES: Mapping[str, tuple[str, ...]] = {
    "recluster": ("adaptive",),
    "compact": ("sizes",),
    "merge_deletes": ("deletes",),
    "build_filters": (),  # created for each call, since it depends on the table's properties
}
CHECKPOINTS = "vacuum.streaming-checkpoints"

P = ParamSpec("P")
T = TypeVar("T")


def checked_flags(call: Callable[P, T]) -> Callable[P, T]:
    """``call``, which checks its flags first: the keyword arguments whose default is True or False.

    Any text is true for Python, ``'false'`` too. So the call raises OptionError for a flag that is not a boolean.
    """
    flags = [
        each.name for each in inspect.signature(call).parameters.values() if isinstance(each.default, bool)
    ]

    @functools.wraps(call)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in flags:
            if name in kwargs and not isinstance(kwargs[name], bool):
                raise OptionError(
                    name, kwargs[name], "a boolean: True or False; in SQL, true or false without quotes"
                )
        return call(*args, **kwargs)

    return checked


def given_options(
    options: Mapping[str, Any] | None, policy: str | Sequence[str] | None, budget_bytes: int | str | None
) -> dict[str, Any]:
    """The options of a call, with those that have an argument of their own."""
    given: dict[str, Any] = {}
    if policy is not None:
        given["policy"] = policy if isinstance(policy, str) else ",".join(texts("policy", policy))
    if budget_bytes is not None:
        given["budget-bytes"] = budget_bytes
    return overridden(options, given)


def is_automatic(properties: Mapping[str, str]) -> bool:
    """Whether a table's properties leave it to automatic runs. Raises OptionError for a value that is not a boolean."""
    option = lookup("auto.enabled")
    keys = spellings(option.name, PROPERTY_PREFIX)
    return all(option.parse(properties[key]) for key in keys if key in properties)


def merge_request(
    verb: str,
    options: Options,
    *,
    columns: Sequence[str] | str | None = None,
    where: str | None = None,
    final: bool = False,
    dry_run: bool = False,
    parallelism: int = 1,
    backoff: Backoff | None = None,
) -> Request:
    """The request of a verb, with the policies that the call or a conf names, else the verb's own."""
    # A configured policy applies to reclustering; other verbs use their own unless the call names one.
    named = options.table.policies if verb == "recluster" or options.origins["policy"] == "call" else ()
    named_columns, layout = columns_and_layout(columns)
    # The adapter reads the property itself, which may identify its columns by more than their names.
    own_key = options.table.cluster_by if options.origins["cluster-by"] != "property" else None
    fallback, fallback_layout = parse_layout(own_key or "")
    return Request(
        verb=verb,
        policies=find_policies(named or VERB_POLICIES[verb]),
        options=options,
        columns=named_columns,
        layout=layout,
        where=where,
        fallback_columns=fallback or None,
        fallback_layout=fallback_layout,
        needs_key=verb == "recluster",
        final=final,
        dry_run=dry_run,
        parallelism=parallelism,
        backoff=backoff,
    )


def columns_and_layout(columns: Sequence[str] | str | None) -> tuple[tuple[str, ...] | None, str]:
    """Columns and layout of a call; text may name both: ``hilbert(a, b)``."""
    if columns is None:
        return None, "linear"
    given, layout = (
        parse_layout(columns) if isinstance(columns, str) else (texts("columns", columns), "linear")
    )
    if not given:
        raise OptionError("columns", columns, "one to four column names")
    return given, layout


def key_columns(columns: Sequence[str | None]) -> tuple[str, ...]:
    """The columns of a new key, none to remove it. Raises OptionError for anything but names, or None alone."""
    named = tuple(column for column in columns if isinstance(column, str))
    if len(named) != len(columns) and tuple(columns) != (None,):
        raise OptionError("columns", columns, "column names, or None alone to remove the key")
    return named


def required_predicate(where: str | Column | None) -> str | Column:
    """The predicate of a delete. Raises OptionError if it is empty."""
    if where is None or (isinstance(where, str) and not where.strip()):
        raise OptionError("where", where, "a predicate over the table's columns; 'true' deletes every row")
    return where


def streams_to_keep(spark: SparkSession, table: str, options: Options) -> list[Stream]:
    """What the streaming checkpoints that the operator configured have yet to read.

    Raises RetentionError if only a table property names them: a service does not read folders named by a table,
    and without them the vacuum would remove versions that these streams have yet to read.
    """
    named = options.vacuum.streaming_checkpoints
    on_table = options.ignored_property(CHECKPOINTS)
    if not named and on_table is not None:
        raise RetentionError(
            f"{table}: the table property {on_table} names checkpoints of streams, "
            "which are read only where the operator names them; nothing was deleted. Set "
            f"{CONF_PREFIX}{CHECKPOINTS} to these folders, or remove the property"
        )
    return list(streams_of(spark, named, required=options.origins[CHECKPOINTS] == "call"))


def version_numbers(versions: Sequence[int]) -> tuple[int, ...]:
    """Versions of a call. Raises OptionError for anything but whole numbers."""
    if not _is_list(versions) or not all(type(version) is int for version in versions):
        raise OptionError("keep_versions", versions, "version numbers; tables go to shared_with")
    return tuple(versions)


def table_names(tables: Sequence[str]) -> tuple[str, ...]:
    """Names of tables of a call. Raises OptionError for anything but text."""
    if not _is_list(tables) or not all(isinstance(table, str) for table in tables):
        raise OptionError("shared_with", tables, "a list of table names; versions go to keep_versions")
    return tuple(tables)


def texts(name: str, given: Any) -> tuple[str, ...]:
    """A list of texts of a call. Raises OptionError for anything else."""
    if not _is_list(given) or not all(isinstance(text, str) for text in given):
        raise OptionError(name, given, "a list of texts, or one text")
    return tuple(given)


def row_limit(limit: int | None) -> int | None:
    """The most rows of a result; None for all. Raises OptionError for anything but a whole number from 1."""
    if limit is not None and (type(limit) is not int or limit < 1):
        raise OptionError("limit", limit, "a whole number, at least 1, or None for all")
    return limit


def _is_list(given: Any) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, str | bytes)


def retention(hours: float | str | None, older_than: datetime | None) -> tuple[int | None, int | None]:
    """The age and the time that a vacuum of a call keeps, in milliseconds; raises OptionError if both are given."""
    if hours is not None and older_than is not None:
        raise OptionError("older_than", older_than, "no older_than together with retention_hours")
    return age_ms(hours), time_ms(older_than)


def age_ms(hours: float | str | None) -> int | None:
    """A number of hours, or a time such as ``7d``, as milliseconds; raises OptionError."""
    try:
        return resolve({"retention-hours": hours}).vacuum.retention_ms
    except OptionError as error:
        raise OptionError("retention_hours", hours, error.expected) from None


def time_ms(when: datetime | None, name: str = "older_than") -> int | None:
    """A time (UTC if it has no zone) as milliseconds since the epoch; raises OptionError."""
    if when is None:
        return None
    if not isinstance(when, datetime):
        raise OptionError(name, when, "a datetime")
    at = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
    return int(at.timestamp() * 1000)
