"""The Spark session of a job."""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mom_pipeline import requirements
from mom_pipeline.errors import PipelineError
from mom_pipeline.spark import class_data, gateway, java, spark_home

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

#: configuration wherever Spark runs
_CONF = {
    "spark.sql.session.timeZone": "UTC",
    # Tables of Arrow are computed with compiled code, like others, and not by the optimizer, row by row.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    # Without it, stopping a stream waits for its batch however long that takes.
    "spark.sql.streaming.stopTimeout": "30s",
}
#: configuration of Spark in this process, which serves no one else
LOCAL_CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
#: loggers by which PySpark writes each error that it raises, too, with its stack in one line of JSON
_TWICE = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_LOCAL_MASTER = re.compile(r"local(\[.*\])?")
_MEMORY = re.compile(r"[1-9]\d{0,8}[kmgt]", re.IGNORECASE)


def make_session(
    name: str,
    master: str | None = None,
    memory: str = "1g",
    *,
    conf: Mapping[str, str] | None = None,
    java_options: Sequence[str] = (),
    niceness: int = gateway.NICENESS,
) -> SparkSession:
    """The session of this process, made at the first call.

    Without a `master` it is that of spark-submit or of SPARK_REMOTE, else Spark on half of the cores of this
    machine. Such a local Spark is started here, with at most `memory` of heap ("512m", "2g"), a priority that
    is lower by `niceness` (0 to 19), and further `java_options`; elsewhere these belong to the cluster.
    `conf` overrides the configuration of this module.
    Raises PipelineError if Java or a package is missing or too old.
    """
    if not _MEMORY.fullmatch(memory):
        raise PipelineError(
            f"the memory {memory!r} is no size", "write a number and a unit, such as 512m or 2g"
        )
    requirements.versions()
    if not _is_local(master):
        return _elsewhere(name, master, {**_CONF, **(conf or {})})
    master = master or f"local[{_cores()}]"
    settings: dict[str, str] = {**local_conf(memory), **(conf or {})}
    if _has_java():
        from pyspark.sql import SparkSession

        made = SparkSession.builder.appName(name).master(master).config(map={**settings}).getOrCreate()
        _activate(made)
        return made
    found = java.find()
    home = spark_home.find(found)
    options = [*class_data.use(home), *java_options]
    return attach(gateway.launch(found, home, memory, options, niceness), name, master, settings)


def local_conf(memory: str) -> dict[str, str]:
    """The configuration of Spark in this process."""
    return {**_CONF, **LOCAL_CONF, "spark.driver.memory": memory}


def attach(started: gateway.Gateway, name: str, master: str, conf: Mapping[str, str]) -> SparkSession:
    """The session in a Java process that was started for it."""
    # Spark reads it from the environment when it starts workers.
    os.environ.setdefault("PYSPARK_PYTHON", gateway.worker_python())
    # The imports take a part of a second, in which Java starts.
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    for logger in _TWICE:
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    settings = SparkConf().setAll(list(conf.items())).setAppName(name).setMaster(master)
    connection = started.connect()
    context = SparkContext(conf=settings, gateway=connection)
    atexit.register(_end, context, connection, started)
    return SparkSession.builder.config(map=dict(conf)).getOrCreate()


def _activate(spark: SparkSession) -> None:
    """Make it the session of Java's thread for this thread of Python: Spark looks there for data sources."""
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


def interrupt(spark: SparkSession) -> None:
    """End the jobs of a session that run now."""
    from pyspark.errors import PySparkAttributeError

    try:
        context = spark.sparkContext
    except PySparkAttributeError:  # a session of Spark Connect has none, since others may use it, too
        spark.interruptAll()
    else:
        context.cancelAllJobs()


def _end(context: SparkContext, connection: JavaGateway, started: gateway.Gateway) -> None:
    """Stop Spark and the connection before Java: they print tracebacks when Java ends first."""
    context.stop()
    connection.shutdown()
    started.stop()


def _elsewhere(name: str, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """The session of spark-submit, of a Spark Connect server or of a cluster."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).config(map=dict(conf))
    if master is None:
        return builder.getOrCreate()
    if master.startswith("sc://"):
        return builder.remote(master).getOrCreate()
    java.find()
    return builder.master(master).getOrCreate()


def _is_local(master: str | None) -> bool:
    """Return whether Spark is to run in this process, and nothing else has started it."""
    if "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ:
        return False
    return master is None or _LOCAL_MASTER.fullmatch(master) is not None


def _has_java() -> bool:
    """Return whether this process has started Java already, which then stays for further sessions."""
    context = sys.modules.get("pyspark.core.context")
    return context is not None and context.SparkContext._gateway is not None


def _cores() -> int:
    """Half of the cores: the brokers of this machine need the others."""
    return max(1, len(os.sched_getaffinity(0)) // 2)
