"""Java classes by their full names: looked up once, and an error if there is no such class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.java_gateway import JavaPackage, JVMView

from lakekeeper.errors import AdapterError
from lakekeeper.spark.jvm import Jvm, on_local_disk
from tests.jvm_calls import jvm_calls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names that Python looked up in Java, of classes that no other test uses."""
    names: list[str] = []
    for kind in (JVMView, JavaPackage):
        answer = kind.__getattr__

        def noted(self: Any, name: str, answer: Any = answer) -> Any:
            names.append(name)
            return answer(self, name)

        monkeypatch.setattr(kind, "__getattr__", noted)
    return names


def test_a_class_is_looked_up_once_and_a_package_never(spark: SparkSession, lookups: list[str]) -> None:
    for _ in range(2):
        assert not Jvm(spark).view.java.util.concurrent.Phaser().isTerminated()
    assert [name for name in lookups if "PythonUtils" not in name] == ["java.util.concurrent.Phaser"]


@pytest.fixture
def calls() -> Iterator[list[str]]:
    """The commands that Python sends to the JVM."""
    with jvm_calls() as sent:
        yield sent


def test_a_static_method_is_looked_up_once(spark: SparkSession, calls: list[str]) -> None:
    longest = Jvm(spark).view.java.lang.Long
    for _ in range(9):
        assert longest.bitCount(7) == 3
    assert sum("bitCount" in call for call in calls) == 10


def test_a_java_collection_is_read_without_an_exception_at_its_end(
    spark: SparkSession, calls: list[str]
) -> None:
    """PySpark made about 80 calls for each, to find out which exception it was."""
    jvm = Jvm(spark)
    numbers = jvm.array_list([1, 2, 3])
    calls.clear()
    assert jvm.items(numbers) == [1, 2, 3]
    assert jvm.items(jvm.view.java.util.Collections.emptySet()) == []
    assert len(calls) <= 15


def test_a_scala_object_is_looked_up_once(spark: SparkSession, lookups: list[str]) -> None:
    for _ in range(2):
        assert bool(Jvm(spark).object("scala.collection.immutable.Nil").isEmpty())
    assert [name for name in lookups if "PythonUtils" not in name] == ["scala.collection.immutable.Nil$"]


def test_a_class_within_a_class(spark: SparkSession) -> None:
    rename = getattr(Jvm(spark).view.org.apache.hadoop.fs, "Options$Rename")
    assert str(rename.OVERWRITE) == "OVERWRITE"


def test_a_missing_class_is_named(spark: SparkSession) -> None:
    with pytest.raises(AdapterError, match=re.escape("cannot load class org.apache.missing.Here")):
        Jvm(spark).view.org.apache.missing.Here()


def test_pythons_special_attributes_are_not_classes(spark: SparkSession) -> None:
    view = Jvm(spark).view
    assert not hasattr(view, "__len__")
    assert not hasattr(view, "_repr_html_")
    assert int(copy(view).java.util.ArrayList().size()) == 0


def test_a_class_in_lower_case(spark: SparkSession) -> None:
    assert str(Jvm(spark).java_class("org.apache.spark.sql.functions").lit(1).toString()) == "1"


def test_the_local_file_system_of_a_plain_session_is_the_driver_s_disk(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Hive's classes, which PySpark ships, replace Hadoop's own: then files were read through the JVM."""
    view = Jvm(spark).view
    plain, place = view.org.apache.hadoop.conf.Configuration(), tmp_path.as_uri()
    files = view.org.apache.hadoop.fs.FileSystem.newInstance(view.java.net.URI.create(place), plain)
    assert on_local_disk(files)


def test_an_unknown_file_system_is_not_taken_for_the_disk(spark: SparkSession) -> None:
    view = Jvm(spark).view
    made = view.org.apache.hadoop.fs.viewfs.ViewFileSystem()
    assert not on_local_disk(made)


def test_a_map_of_texts_crosses_in_one_call(spark: SparkSession, calls: list[str]) -> None:
    jvm = Jvm(spark)
    made, texts = jvm.view.java.util.HashMap(), {f"key {i}": f'"\u2028 {i}\n' for i in range(50)}
    for key, value in texts.items():
        made.put(key, value)
    jvm.text_map(made)
    calls.clear()
    assert jvm.text_map(made) == texts
    assert len(calls) <= 2


def test_a_list_of_texts_takes_as_many_calls_for_any_length(spark: SparkSession, calls: list[str]) -> None:
    jvm = Jvm(spark)
    texts = ["a b", "ä", "", "x,y\n", *(f"part-{n}.parquet" for n in range(3000))]
    calls.clear()
    made = jvm.text_list(texts)
    assert len(calls) <= 30
    assert jvm.items(made) == texts
    assert jvm.text_list([]).size() == 0
