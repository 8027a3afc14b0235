"""RemoveFile actions of many files, made within the JVM in a few py4j calls: each takes a tenth of a millisecond."""

from __future__ import annotations

from typing import Any

from lakekeeper.spark.jvm import Jvm

_ACTIONS = "org.apache.spark.sql.delta.actions."


def removes(jvm: Jvm, adds: Any, now_ms: int, *, data_change: bool) -> Any:
    """The RemoveFiles of AddFiles, in their order; both are java.util.Lists."""
    view = jvm.view
    invoke, handles = view.java.lang.invoke, view.java.lang.invoke.MethodHandles
    # Only Spark's class loader sees the jars of --packages.
    add, remove, function = (
        view.org.apache.spark.util.Utils.classForName(name, True, False)
        for name in (f"{_ACTIONS}AddFile", f"{_ACTIONS}RemoveFile", "java.util.function.Function")
    )
    takes = jvm.array_list([view.java.lang.Long.TYPE, view.java.lang.Boolean.TYPE])
    kind = invoke.MethodType.methodType(remove, takes)
    method = handles.publicLookup().findVirtual(add, "removeWithTimestamp", kind)
    given = jvm.array(view.java.lang.Object, [now_ms, data_change])
    each = invoke.MethodHandleProxies.asInterfaceInstance(function, handles.insertArguments(method, 1, given))
    return adds.stream().map(each).collect(view.java.util.stream.Collectors.toList())
