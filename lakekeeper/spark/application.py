"""What Spark knows of the running application, and of the work that its executors did."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from lakekeeper.redaction import names_a_secret
from lakekeeper.spark.confs import all_confs
from lakekeeper.spark.jvm import Jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHORTEST = 6  # characters of a secret; a shorter one may occur in any text
_PATIENCE_MS = 2_000  # longest wait until the listeners have seen the last task


def secrets(spark: SparkSession) -> tuple[str, ...]:
    """The values of confs whose names say that they are secret, longest first."""
    values = {value for key, value in all_confs(spark).items() if names_a_secret(key) and value}
    return tuple(sorted((value for value in values if len(value) >= _SHORTEST), key=len, reverse=True))


def await_listeners(spark: SparkSession) -> None:
    """Wait until Spark's listeners have seen all that has happened; a Java TimeoutException after two seconds."""
    Jvm(spark).session.sparkContext().listenerBus().waitUntilEmpty(_PATIENCE_MS)


def has_ended(spark: SparkSession) -> bool:
    """Whether Spark has stopped, for example because its master removed the application, or its JVM does not answer."""
    try:
        return bool(Jvm(spark).session.sparkContext().isStopped())
    except Exception:  # py4j's, of a JVM that is gone
        return True


def core_seconds(spark: SparkSession, groups: Collection[str]) -> float | None:
    """The time in which the jobs of some job groups, or with tags of their names, occupied executor cores, in seconds.

    None where Spark has no job of these groups, has forgotten some (``spark.ui.retainedJobs``,
    ``spark.ui.retainedStages``), or its listeners do not catch up: an unknown time is not zero.
    """
    jvm = Jvm(spark)
    context = spark.sparkContext
    try:
        await_listeners(spark)
        tracker, java = context.statusTracker(), jvm.session.sparkContext().statusTracker()
        jobs = {job for group in groups for job in tracker.getJobIdsForGroup(group)}
        jobs |= {int(job) for group in groups for job in java.getJobIdsForTag(group)}
        if not jobs or len(jobs) >= int(context.getConf().get("spark.ui.retainedJobs", "1000") or 1000):
            return None
        infos = [tracker.getJobInfo(job) for job in jobs]
        if None in infos:
            return None
        stages = {stage for info in infos if info is not None for stage in info.stageIds}
        busy_ms = [_busy_ms(jvm, stage) for stage in stages]
        cores = int(context.getConf().get("spark.task.cpus", "1") or 1)
    except Exception:  # a Java error: Spark's store of statuses is not public, and may forget at any time
        return None
    return None if None in busy_ms else cores * sum(filter(None, busy_ms)) / 1000


def _busy_ms(jvm: Jvm, stage: int) -> int | None:
    """The run time of the tasks of all attempts of a stage; None for a stage that Spark has forgotten."""
    store: Any = jvm.session.sparkContext().statusStore()
    no_quantiles = jvm.array(jvm.spark._jvm.double, [])
    attempts = jvm.python_list(store.stageData(stage, False, jvm.array_list([]), False, no_quantiles))
    return sum(int(attempt.executorRunTime()) for attempt in attempts) if attempts else None
