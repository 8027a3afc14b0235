"""Java classes of the tests, compiled in the session: Spark includes a compiler (Janino), so no JDK is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def define(spark: SparkSession, source: Path, beside: str) -> None:
    """Define the classes of a file in the class loader of the class ``beside``; an existing one is kept."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    java_class = jvm.java.lang.Class
    loader = jvm.org.apache.spark.util.Utils.classForName(beside, False, False).getClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(source.read_text())
    number = jvm.java.lang.Integer.TYPE
    kinds = gateway.new_array(java_class, 4)
    for i, kind in enumerate(
        (java_class.forName("java.lang.String"), java_class.forName("[B"), number, number)
    ):
        kinds[i] = kind
    defining = java_class.forName("java.lang.ClassLoader").getDeclaredMethod("defineClass", kinds)
    defining.setAccessible(True)  # Spark opens java.lang for its own use
    for name, code in dict(compiler.getBytecodes()).items():
        if jvm.org.apache.spark.util.Utils.classIsLoadable(str(name)):
            continue
        values = gateway.new_array(jvm.java.lang.Object, 4)
        for i, value in enumerate((str(name), bytes(code), 0, len(code))):
            values[i] = value
        defining.invoke(loader, values)
