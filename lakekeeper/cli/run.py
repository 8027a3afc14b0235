"""``lakekeeper run``: a PySpark program of the user, with automatic runs if its confs enable them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lakekeeper.cli import run_hook
from lakekeeper.cli.setup import Setup, with_setup
from lakekeeper.cli.values import pairs
from lakekeeper.core.config.options import set_by
from lakekeeper.engine.auto_settings import settings_from
from lakekeeper.errors import OptionError
from lakekeeper.spark.installation import SUBMIT_ARGS

_OF_A_COMMAND = frozenset({"catalog", "warehouse", "as_json", "quiet", "log_json"})
_RESOURCE = "pyspark-shell"  # PySpark's own application, after all options


def add_to(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command(
        short_help="Run a PySpark program, and maintain its tables.",
        context_settings={"allow_interspersed_args": False},  # what follows the program is its own
    )(run)


@partial(with_setup, hidden=_OF_A_COMMAND)
def run(
    setup: Setup,
    program: Annotated[
        list[str],
        typer.Argument(metavar="PROGRAM [ARGUMENTS]", help="A program and its arguments, as for python."),
    ],
) -> int:
    """Run a PySpark program, and maintain tables in the background.

    The program needs no changes, and keeps its arguments and its exit code. Options before the program belong to
    lakekeeper, all later ones to the program. Confs are passed to Spark as by spark-submit. Automatic runs start in a
    thread of the program if a session of the program has the conf spark.lakekeeper.auto.enabled=true. With
    spark.lakekeeper.sql.call.enabled=true, the program can call lakekeeper in SQL; without either conf, lakekeeper is
    not loaded. Before the session stops, a last pass maintains the tables that the program wrote since the previous
    one.
    """
    for name, value in (("--catalog", setup.catalog), ("--warehouse", setup.warehouse)):
        if value:
            raise typer.BadParameter("the program creates the session; use --conf instead", param_hint=name)
    if not Path(program[0]).is_file():
        raise OptionError("PROGRAM", program[0], "the path of a Python program")
    if set_by(setup.lakekeeper_confs(), "auto.enabled"):
        settings_from(setup.check({}))
    arguments = _submit_arguments(setup)
    if arguments:
        os.environ[SUBMIT_ARGS] = submit_args(os.environ.get(SUBMIT_ARGS, ""), arguments)
    sys.stdout.flush()
    # The process becomes the program: signals, standard streams and the exit code are its own.
    os.execv(sys.executable, [sys.executable, str(Path(run_hook.__file__)), *program])  # noqa: S606 - the user names it


def submit_args(given: str, arguments: Sequence[str]) -> str:
    """PYSPARK_SUBMIT_ARGS with further options after the given ones: in spark-submit, the last one wins."""
    *options, resource = shlex.split(given) or [_RESOURCE]
    return shlex.join([*options, *arguments, resource])


def _submit_arguments(setup: Setup) -> list[str]:
    """The confs of the command as options of spark-submit."""
    found = ["--properties-file", str(setup.properties_file)] if setup.properties_file else []
    for key, value in pairs("--conf", setup.conf or ()).items():
        found += ["--conf", f"{key}={value}"]
    return [*found, "--master", setup.master] if setup.master else found
