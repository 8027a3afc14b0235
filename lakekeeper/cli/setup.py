"""The options that all commands share, and the Spark session made from them."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from lakekeeper.cli.output import say
from lakekeeper.cli.progress import Progress
from lakekeeper.cli.values import pairs, properties_file
from lakekeeper.core.config.options import CONF_PREFIX, Options, resolve
from lakekeeper.core.text.result import Result
from lakekeeper.engine.plugins import find_policies
from lakekeeper.spark import interrupts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakekeeper.api import Table

_CATALOG = "An Iceberg catalog: name=jdbc:sqlite:/a/catalog.db, name=rest:http://… or name=hadoop:/a/dir. Repeatable."


@dataclass(frozen=True)
class Setup:
    """How to start Spark and how to show results; each field is an option of every command."""

    catalog: Annotated[list[str] | None, typer.Option(metavar="NAME=TYPE:URI", help=_CATALOG)] = None
    conf: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="A Spark conf, as for spark-submit, or a spark.lakekeeper.* conf. Repeatable.",
        ),
    ] = None
    properties_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read confs from this file instead of spark-defaults.conf; --conf overrides it.",
        ),
    ] = None
    warehouse: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of managed tables, unless a catalog sets it."),
    ] = None
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Spark master; default: that of spark-defaults.conf, else local[*]."
        ),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress on stderr.")] = False
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Print the log on stderr, one JSON object per line.")
    ] = False

    @property
    def silent(self) -> bool:
        """Whether stderr is reserved for the log and for errors."""
        return self.quiet or self.log_json

    def confs(self) -> dict[str, str]:
        """All confs given on the command line; raises OptionError."""
        found = properties_file(self.properties_file) if self.properties_file else {}
        found |= pairs("--conf", self.conf or ())
        if self.master:
            found["spark.master"] = self.master
        return found

    def lakekeeper_confs(self) -> dict[str, str]:
        """The confs of lakekeeper that a session would have, from wherever spark-submit takes confs."""
        from lakekeeper.spark.session import user_confs

        given = user_confs(self.confs(), self.properties_file)
        return {key: value for key, value in given.items() if key.startswith(CONF_PREFIX)}

    def check(self, options: Mapping[str, Any]) -> Options:
        """Check options and confs before Spark starts, which takes seconds; raises OptionError."""
        resolved = resolve(options, self.lakekeeper_confs())
        find_policies(resolved.table.policies)
        return resolved

    def session(self) -> SparkSession:
        """The session: a new one, or the running one."""
        from lakekeeper.spark.installation import use_pyspark
        from lakekeeper.spark.session import local_session
        from lakekeeper.spark.shims import shim

        use_pyspark()
        shim().silence_errors()  # the command reports each error once, on one line
        catalogs = pairs(
            "--catalog", self.catalog or (), "name=type:uri, e.g. ice=jdbc:sqlite:/data/catalog.db"
        )
        spark = local_session(
            catalogs=catalogs,
            conf=self.confs(),
            warehouse=self.warehouse,
            properties_file=self.properties_file,
        )
        interrupts.guard(spark)
        return spark

    def table(self, name: str) -> Table:
        """Open the table in a session made for it."""
        from lakekeeper.api import table

        return table(self.session(), name)

    def progress(self) -> Progress:
        """A display for one run."""
        return Progress(quiet=self.silent)

    def show(self, result: Result) -> None:
        """Print a result on stdout, as text or as JSON."""
        if self.as_json:
            typer.echo(result.to_json())
        else:
            say(str(result))


SESSION = frozenset({"catalog", "warehouse", "master"})
"""The fields of `Setup` that only matter where a session is made."""


def with_setup(command: Callable[..., int], *, hidden: AbstractSet[str] = frozenset()) -> Callable[..., int]:
    """``command`` with all fields of `Setup` as options; its first argument is a Setup.

    Typer reads options from a signature: this one is composed, so that no command repeats these options. The help
    leaves out those that are ``hidden``: they have no effect in this command, or the command refuses them.
    """
    shared = inspect.signature(Setup).parameters
    hints = {
        name: _hidden(hint) if name in hidden else hint
        for name, hint in get_type_hints(Setup, include_extras=True).items()
    }
    # On Python 3.10, get_type_hints adds Optional to the annotation of an argument whose default is None. Typer then
    # sees neither its help nor that it is positional.
    own = inspect.get_annotations(command, eval_str=True)
    mine = list(inspect.signature(command).parameters.values())[1:]

    @functools.wraps(command)
    def run(**given: Any) -> int:
        setup = Setup(**{name: given.pop(name) for name in shared})
        return command(setup, **given)

    after = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[p.name]) for p in shared.values()
    ]
    before = [p.replace(annotation=own[p.name]) for p in mine]
    parameters = sorted([*before, *after], key=lambda p: p.kind)
    run.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]  # Typer reads it there
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _hidden(hint: Any) -> Any:
    """The annotation of an option that the help leaves out."""
    kind, option = get_args(hint)
    unlisted = copy.copy(option)
    unlisted.hidden = True
    return Annotated[kind, unlisted]
