"""Java functions made of method handles: loops over files run in the JVM, without callbacks to Python.

It takes up to 40 py4j calls to look up a handle, and each call waits until the other process is scheduled: 0.1 ms on an
idle machine, over 1 ms on a busy one. So each handle is looked up once per session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from lakekeeper.spark.jvm import Jvm

GUAVA = "org.apache.iceberg.relocated.com.google.common."
_INVOKE = "java.lang.invoke."
_OBJECT = "java.lang.Object"
_TEXT = "java.lang.String"
_PRIMITIVE = {"boolean": "Boolean", "int": "Integer", "long": "Long", "void": "Void"}
_BETWEEN = "\x01"

Getter = tuple[str, str, str]
"""A method without arguments: its class, its name, and the class that it returns."""

_known: WeakKeyDictionary[Any, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()


class Handles:
    """Classes, method handles and functions of the JVM of a session, each made once. Thread-safe."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self.invoke = jvm.view.java.lang.invoke.MethodHandles
        self._made = _known.setdefault(jvm.spark, {})

    def java_class(self, name: str) -> Any:
        view = self._jvm.view

        def load() -> Any:
            if name in _PRIMITIVE:
                return getattr(view.java.lang, _PRIMITIVE[name]).TYPE
            # Only Spark's class loader sees the jars of --packages.
            return view.org.apache.spark.util.Utils.classForName(name, True, False)

        return self.once(load, "class", name)

    def type(self, returns: str, *takes: str) -> Any:
        """A MethodType."""

        def make() -> Any:
            made = self._jvm.static(_INVOKE + "MethodType", "methodType")(self.java_class(returns))
            classes = self._jvm.array_list(self.java_class(each) for each in takes)
            return made.appendParameterTypes(classes) if takes else made

        return self.once(make, "type", returns, *takes)

    def method(self, cls: str, name: str, returns: str, *takes: str) -> Any:
        """A public instance method."""

        def find() -> Any:
            kind = self.type(returns, *takes)
            return self._lookup().findVirtual(self.java_class(cls), name, kind)

        return self.once(find, "method", cls, name, returns, *takes)

    def static(self, cls: str, name: str, returns: str, *takes: str) -> Any:
        """A public static method."""

        def find() -> Any:
            kind = self.type(returns, *takes)
            return self._lookup().findStatic(self.java_class(cls), name, kind)

        return self.once(find, "static", cls, name, returns, *takes)

    def constructor(self, cls: str, takes: str) -> Any:
        """A public constructor with one argument."""
        kind = self.type("void", takes)
        return self._lookup().findConstructor(self.java_class(cls), kind)

    def proxy(self, interface: str, handle: Any) -> Any:
        """An object of this functional interface that calls a handle."""
        proxies = self._jvm.view.java.lang.invoke.MethodHandleProxies
        return proxies.asInterfaceInstance(self.java_class(interface), handle)

    def getter(self, cls: str, name: str, returns: str) -> Any:
        """A Guava Function that calls a method without arguments."""
        return self.once(
            lambda: self.proxy(GUAVA + "base.Function", self.method(cls, name, returns)),
            "getter", cls, name, returns,
        )  # fmt: skip

    def record(self, cls: str, getters: Sequence[Getter], statics: Sequence[Getter] = ()) -> Any:
        """A Guava Function from an object of a class to a text of several values, separated by ``_BETWEEN``.

        ``statics`` are static methods with the object as their argument; their values are the last ones.
        """

        def values() -> list[Any]:
            return [self.method(*getter) for getter in getters] + [
                self.static(*getter, cls) for getter in statics
            ]

        return self.joined(cls, values, *getters, *statics)

    def joined(self, cls: str, values: Callable[[], Sequence[Any]], *key: Any) -> Any:
        """Like :meth:`record`, for any handles that take an object of the class; ``key`` identifies them."""

        def make() -> Any:
            found = values()
            plain = self.type(_OBJECT, cls)
            filters = self._jvm.array(self._jvm.view.java.lang.invoke.MethodHandle, found)
            for number, handle in enumerate(found):
                filters[number] = handle.asType(plain)
            text = self.invoke.filterArguments(self._joined(len(found)), 0, filters)
            one = self._jvm.spark.sparkContext._gateway.new_array(self._jvm.spark._jvm.int, len(found))
            joined = self.invoke.permuteArguments(text, self.type(_TEXT, cls), one)  # the array holds zeros
            return self.proxy(GUAVA + "base.Function", joined)

        return self.once(make, "record", cls, *key)

    def entry(self, cls: str, method: str, key: int) -> Any:
        """A handle: the value of a whole number in the map that a method returns; null without the map or the value."""
        java = "java.util.Map"
        values = self.objects([key])
        get = self.invoke.insertArguments(self.method(java, "get", _OBJECT, _OBJECT), 1, values)
        known = self.static("java.util.Objects", "nonNull", "boolean", _OBJECT).asType(
            self.type("boolean", java)
        )
        found = self.invoke.guardWithTest(known, get, self.invoke.empty(self.type(_OBJECT, java)))
        return self.invoke.filterReturnValue(self.method(cls, method, java), found)

    def objects(self, values: Sequence[Any]) -> Any:
        """A Java array of objects."""
        return self._jvm.array(self._jvm.view.java.lang.Object, values)

    def _joined(self, count: int) -> Any:
        """A handle that joins this number of objects to one text; null becomes an empty text."""
        every = f"[L{_OBJECT};"
        joiner = self._jvm.static(GUAVA + "base.Joiner", "on")(_BETWEEN).useForNull("")
        join = self.method(GUAVA + "base.Joiner", "join", _TEXT, every).bindTo(joiner)
        return join.asCollector(self.java_class(every), count)

    def once(self, make: Callable[[], Any], *key: Any) -> Any:
        """What ``make`` returns, made at the first use of this key in the session."""
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make()
        return found

    def _lookup(self) -> Any:
        return self.once(self.invoke.publicLookup, "lookup")


class BulkJvm(Jvm):
    """The JVM of a session, with Iceberg's Guava and calls that handle many objects at once."""

    def __init__(self, spark: Any) -> None:
        super().__init__(spark)
        guava = self.view.org.apache.iceberg.relocated.com.google.common
        self.collect, self.base = guava.collect, guava.base
        self.handles = Handles(self)

    def values_of(self, items: Any, cls: str, method: str, returns: str) -> list[str]:
        """The results of a method of many Java objects, as text (empty for null), in one call."""
        if self.collect.Iterables.isEmpty(items):
            return []
        return self.texts(self.collect.Iterables.transform(items, self.handles.getter(cls, method, returns)))

    def records(
        self, items: Any, cls: str, getters: Sequence[Getter], statics: Sequence[Getter] = ()
    ) -> list[list[str]]:
        """Several values of each of many Java objects, as text (empty for null), in one call."""
        return self.records_by(items, self.handles.record(cls, getters, statics))

    def records_by(self, items: Any, function: Any) -> list[list[str]]:
        """Like :meth:`records`, with a function that :meth:`Handles.joined` made."""
        text = str(self._joiner().join(self.collect.Iterables.transform(items, function)))
        return [each.split(_BETWEEN) for each in text.split("\0")] if text else []

    def maps(self, items: Any, cls: str, method: str) -> list[dict[str, str]]:
        """The maps of texts that a method of many Java objects returns (empty for null), in one call."""
        java, handles = "java.util.Map", self.handles

        def make() -> Any:
            joiner = self.base.Joiner.on("\1").withKeyValueSeparator("\2")
            join = handles.method(GUAVA + "base.Joiner$MapJoiner", "join", _TEXT, java).bindTo(joiner)
            known = handles.static("java.util.Objects", "nonNull", "boolean", _OBJECT)
            nothing = handles.invoke.empty(handles.type(_TEXT, java))
            text = handles.invoke.guardWithTest(known.asType(handles.type("boolean", java)), join, nothing)
            get = handles.invoke.filterReturnValue(handles.method(cls, method, java), text)
            return handles.proxy(GUAVA + "base.Function", get)

        made = self.texts(self.collect.Iterables.transform(items, handles.once(make, "maps", cls, method)))
        return [dict(pair.split("\2", 1) for pair in each.split("\1") if pair) for each in made]

    def _joiner(self) -> Any:
        return self.handles.once(lambda: self.base.Joiner.on("\0").useForNull(""), "joiner")

    def texts(self, items: Any) -> list[str]:
        """The values of a Java Iterable as text; null becomes an empty text."""
        joined = str(self._joiner().join(items))
        return joined.split("\0") if joined else [""] if self.collect.Iterables.size(items) else []

    def strings(self, texts: Iterable[str]) -> Any:
        """A Java List of texts, made in one call."""
        joined = "\0".join(texts)
        return self.base.Splitter.on("\0").splitToList(joined) if joined else self.view.java.util.ArrayList()

    def hidden_field(self, item: Any, cls: str, name: str) -> Any:
        """The value of a non-public field of a class."""

        def find() -> Any:
            found = self.handles.java_class(cls).getDeclaredField(name)
            found.setAccessible(True)
            return found

        return self.handles.once(find, "hidden field", cls, name).get(item)

    def hidden_call(self, item: Any, cls: str, name: str, *given: tuple[str, Any]) -> Any:
        """The result of a non-public method of a class; ``given`` are its arguments as (class, value)."""
        java = self.view.java.lang

        def find() -> Any:
            kinds = self.array(java.Class, [self.handles.java_class(kind) for kind, _ in given])
            found = self.handles.java_class(cls).getDeclaredMethod(name, kinds)
            found.setAccessible(True)
            return found

        method = self.handles.once(find, "hidden method", cls, name)
        return method.invoke(item, self.handles.objects([value for _, value in given]))

    def is_a(self, item: Any, cls: str) -> bool:
        """Whether a Java object is an instance of a class or interface."""
        return bool(self.handles.java_class(cls).isInstance(item))
