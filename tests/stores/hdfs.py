"""An HDFS of one NameNode and one DataNode on loopback, each a process of its own.

python -m tests.stores.hdfs      download their jar, as Spark downloads its packages, and keep it in build/stores
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from lakekeeper.spark import installation
from lakekeeper.spark.java_runtime import usable_java
from tests.faults.processes import free_port
from tests.stores.webhdfs import HOST, WebHDFS

JARS = ("org.apache.hadoop:hadoop-client-minicluster:3.4.2", "javax.xml.bind:jaxb-api:2.2.11")
"""The servers of the Hadoop that PySpark 4.1.1 brings; Java has no JAXB of its own since version 11."""
_FOLDER = Path(__file__).parents[2] / "build" / "stores" / "hdfs"
_SERVERS = {
    "name": "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "data": "org.apache.hadoop.hdfs.server.datanode.DataNode",
}
_PATIENCE = 120  # seconds in which a server starts


@dataclass
class MiniHdfs:
    """The two servers, and the store for readers without Spark."""

    folder: Path
    store: WebHDFS
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, which: str) -> None:
        """Start the ``name`` or the ``data`` node."""
        self._running[which] = _java(self.folder, which)

    def kill(self, which: str) -> None:
        """Kill it, as a crash would."""
        process = self._running.pop(which)
        process.kill()
        process.wait()

    def wait(self) -> None:
        """Wait until files can be written. Raises AssertionError on a timeout."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            for which, process in self._running.items():
                assert process.poll() is None, f"the {which} node ended, see {self.folder / which}.log"
            try:
                self.store.put("ready", b"")
            except OSError:
                time.sleep(0.1)  # not a race: a starting server does not respond yet
            else:
                return
        raise AssertionError(f"HDFS did not start within {_PATIENCE} s, see {self.folder}")

    def stop(self) -> None:
        for which in list(self._running):
            self.kill(which)


@contextmanager
def mini_hdfs(folder: Path) -> Iterator[MiniHdfs]:
    """An empty HDFS that lives as long as the context, in a folder."""
    store = WebHDFS(rpc=free_port(), http=free_port())
    confs = {
        "fs.defaultFS": store.address,
        "dfs.namenode.http-address": f"{HOST}:{store.http}",
        "dfs.namenode.name.dir": f"file://{folder}/name",
        "dfs.namenode.safemode.extension": "0",
        "dfs.datanode.data.dir": f"file://{folder}/data",
        "dfs.datanode.hostname": HOST,
        "dfs.heartbeat.interval": "1",
        **{f"dfs.datanode.{server}": f"{HOST}:0" for server in ("address", "http.address", "ipc.address")},
        "dfs.replication": "1",
        "dfs.ls.limit": "5",  # a listing of six entries takes two calls, as one of a thousand does
    }
    (folder / "hdfs-site.xml").write_text(_xml(confs))
    (folder / "core-site.xml").write_text(_xml(confs))
    made = MiniHdfs(folder, store)
    _java(folder, "name", "-format", "-nonInteractive").wait(_PATIENCE)
    try:
        made.start("name")
        made.start("data")
        made.wait()
        yield made
    finally:
        made.stop()


def _java(folder: Path, which: str, *arguments: str) -> subprocess.Popen[bytes]:
    java, jars = usable_java(), [_FOLDER / _file(jar) for jar in JARS]
    missing = [jar for jar in jars if not jar.is_file()]
    if java is None or missing:
        raise FileNotFoundError(f"Java or {missing}: `make stores` installs them")
    path = [folder, *jars, installation.home() / "jars" / "*"]
    options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    command = [java.program, *options, "-cp", os.pathsep.join(map(str, path)), _SERVERS[which], *arguments]
    with (folder / f"{which}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def _xml(confs: Mapping[str, str]) -> str:
    each = (f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in confs.items())
    return f"<configuration>{''.join(each)}</configuration>"


def _file(package: str) -> str:
    _, artifact, version = package.split(":")
    return f"{artifact}-{version}.jar"


def install() -> None:
    """Download the jars that are missing."""
    wanted = [package for package in JARS if not (_FOLDER / _file(package)).is_file()]
    if not wanted:
        return
    from lakekeeper.spark.session import local_session

    with local_session(conf={"spark.jars.packages": ",".join(wanted)}, small_data=True) as spark:
        found = {Path(jar).name: jar for jar in spark.sparkContext.getConf().get("spark.jars", "").split(",")}
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for package in wanted:
        group, artifact, version = package.split(":")
        jar = found[f"{group}_{artifact}-{version}.jar"]
        shutil.copyfile(jar.removeprefix("file://"), _FOLDER / _file(package))


if __name__ == "__main__":
    install()
