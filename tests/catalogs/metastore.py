"""A Hive metastore on loopback: the server of the jars in PySpark, with an empty in-memory Derby."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.faults.processes import free_port, listening

_JARS = Path(pyspark.__file__).parent / "jars"


@contextmanager
def hive_metastore(home: Path) -> Iterator[str]:
    """The address of a metastore, in a process that lives as long as the context; its logs are in ``home``."""
    settings = {
        "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "none",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"{home}/hive",
        "derby.stream.error.file": f"{home}/derby.log",
    }
    java = os.environ.get("JAVA_HOME")
    [py4j] = _JARS.glob("py4j-*.jar")
    control, process = launch_gateway(
        jarpath=str(py4j),
        classpath=f"{_JARS}/*",
        java_path=f"{java}/bin/java" if java else "java",
        javaopts=[
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            *(f"-D{key}={value}" for key, value in settings.items()),
        ],
        die_on_exit=True,
        return_proc=True,
    )
    gateway: Any = JavaGateway(gateway_parameters=GatewayParameters(port=control))
    try:
        hive = gateway.jvm.org.apache.hadoop.hive
        conf = hive.conf.HiveConf()
        hive.metastore.txn.TxnDbUtil.prepDb(conf)  # the tables for Iceberg's locks
        port = free_port()
        bridge = hive.thrift.HadoopThriftAuthBridge23()
        threading.Thread(target=_serve, args=(hive, port, bridge, conf), daemon=True).start()
        listening(port, process)
        yield f"thrift://127.0.0.1:{port}"
    finally:
        gateway.shutdown()
        process.kill()
        process.wait()


def _serve(hive: Any, port: int, bridge: Any, conf: Any) -> None:
    """Serve until the process ends, which aborts the call."""
    with suppress(Exception):
        hive.metastore.HiveMetaStore.startMetaStore(port, bridge, conf)
