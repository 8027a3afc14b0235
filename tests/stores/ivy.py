"""Jars of a Maven registry, with the Ivy of PySpark."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from lakekeeper.spark import installation
from lakekeeper.spark.java_runtime import usable_java

_CLASSIFIED = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="lakekeeper" module="tests"/>
<dependencies><dependency org="{}" name="{}" rev="{}" transitive="false">
<artifact name="{}" type="jar" ext="jar" m:classifier="{}"/></dependency></dependencies>
</ivy-module>"""


def retrieve(package: str, pattern: str) -> None:
    """Put a package and its dependencies at ``pattern``, a path with Ivy's tokens. Raises OSError."""
    _run("-types", "jar", "-confs", "default", "-dependency", *package.split(":"), "-retrieve", pattern)


def retrieve_classified(package: str, classifier: str, pattern: str) -> None:
    """The same for one jar with a classifier, which ``spark.jars.packages`` cannot name, alone."""
    group, name, version = package.split(":")
    with TemporaryDirectory() as folder:
        wanted = Path(folder) / "ivy.xml"
        wanted.write_text(_CLASSIFIED.format(group, name, version, name, classifier))
        _run("-ivy", str(wanted), "-retrieve", pattern)


def _run(*options: str) -> None:
    java = usable_java()
    assert java is not None, "`make setup` installs Java"
    [ivy] = (installation.home() / "jars").glob("ivy-*.jar")
    with TemporaryDirectory() as cache:
        command = [java.program, "-jar", str(ivy), "-warn", "-cache", cache, *options]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    if done.returncode:
        raise OSError(f"{' '.join(options)}: {done.stdout[-2_000:]}")
