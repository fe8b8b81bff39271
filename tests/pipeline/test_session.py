"""The session, and the Java process under it."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession

from mom_pipeline import session
from mom_pipeline.errors import PipelineError
from mom_pipeline.parquet_archive import ArchiveSink
from mom_pipeline.session import make_session
from mom_pipeline.spark import class_data, gateway, java, spark_home, warm_up
from tests.pipeline.test_java import install
from tests.support.broker_process import ROOT
from tests.support.java import QUICK, require_java
from tests.support.patience import patient
from tests.support.polling import poll

_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def jvm(spark: SparkSession) -> Any:
    """Java's classes in the process of a session."""
    return spark._jvm


def java_process(spark: SparkSession) -> psutil.Process:
    """The Java process of a session."""
    return psutil.Process(jvm(spark).java.lang.ProcessHandle.current().pid())


def test_it_answers_a_query_in_utc(spark: SparkSession) -> None:
    row = spark.sql(
        "select sum(id) total, date_format(timestamp_seconds(0), 'HH:mm') began from range(5)"
    ).first()
    assert row is not None and row.asDict() == {"total": 10, "began": "00:00"}


def test_the_work_by_which_classes_are_recorded_is_done(spark: SparkSession) -> None:
    warm_up.do_work(spark)
    assert not spark.streams.active


def test_workers_import_the_compiled_pyspark_that_is_installed(spark: SparkSession) -> None:
    def place(_: int) -> tuple[str, str]:
        import pyspark

        assert pyspark.__spec__ is not None and pyspark.__spec__.cached is not None
        return os.path.realpath(pyspark.__file__), os.path.realpath(pyspark.__spec__.cached)

    [(source, compiled)] = spark.sparkContext.parallelize([0], 1).map(place).collect()
    assert Path(source).parent == spark_home.package()
    assert Path(compiled).parent == spark_home.package() / "__pycache__"


def test_workers_import_this_repository(spark: SparkSession) -> None:
    def place(_: int) -> str:
        import mom_pipeline

        return str(mom_pipeline.__file__)

    assert spark.sparkContext.parallelize([0], 1).map(place).first() == str(
        ROOT / "mom_pipeline" / "__init__.py"
    )


def test_a_second_call_returns_the_same_session(spark: SparkSession) -> None:
    assert make_session("tests", "local[1]") is spark


def test_data_sources_are_found_in_each_thread(spark: SparkSession) -> None:
    """Java has a thread of its own for each of Python."""

    def looked_up() -> str:
        made = make_session("tests", "local[1]")
        made.dataSource.register(ArchiveSink)
        conf = cast(Any, made)._jsparkSession.sessionState().conf()
        found = jvm(made).org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(
            ArchiveSink.name(), conf
        )
        return str(found.getSimpleName())

    with ThreadPoolExecutor(1) as other:
        assert other.submit(looked_up).result() == "PythonDataSourceV2"


def test_java_gets_the_options_of_spark_except_the_incubating_module(spark: SparkSession) -> None:
    options = jvm(spark).org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptionArray()
    assert [one for one in options if one != "--add-modules=jdk.incubator.vector"] == list(
        gateway.MODULE_OPTIONS
    )


def test_java_finds_most_classes_in_the_first_jars() -> None:
    """It opens all jars for a class that is in the last one."""
    jars = [Path(path) for path in gateway.class_path(spark_home.package()).split(":")]
    assert sorted(jars) == sorted((spark_home.package() / "jars").glob("*.jar"))
    places = {jar.name.partition("_2.")[0]: place for place, jar in enumerate(jars)}
    assert all(places[name] < 10 for name in ("spark-catalyst", "spark-sql", "spark-sql-api", "spark-core"))
    for beginning in gateway.FIRST_JARS:
        found = [place for place, jar in enumerate(jars) if jar.name.startswith(beginning)]
        assert found and max(found) < len(jars) / 2, beginning


def test_spark_listens_on_the_loopback_alone(spark: SparkSession) -> None:
    listening = [
        one for one in java_process(spark).net_connections("inet") if one.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert {one.laddr.ip.removeprefix("::ffff:") for one in listening} == {"127.0.0.1"}


def test_the_secret_of_java_is_in_no_environment_nor_command(spark: SparkSession) -> None:
    connection: Any = spark.sparkContext._gateway
    secret = connection.gateway_parameters.auth_token
    process = java_process(spark)
    assert secret
    assert secret not in str([dict(os.environ), process.environ(), process.cmdline()])


@pytest.mark.process
def test_java_ignores_an_archive_of_classes_that_does_not_fit_and_ends_with_a_python_that_is_killed(
    cache: Path,
) -> None:
    found = require_java()
    home = spark_home.make(found)
    class_data.archive(home).write_bytes(b"not an archive")
    assert not class_data.fits(found, home)
    code = (
        "from mom_pipeline.spark import class_data, gateway, java, spark_home; import time;"
        "found = java.find(); home = spark_home.find(found);"
        f"started = gateway.launch(found, home, '256m', [*class_data.use(home), *{QUICK}], 0);"
        "print(started.connect().jvm.java.lang.Math.max(1, 2), started.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=_ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as python:
        assert python.stdout is not None and python.stderr is not None
        answer, pid = python.stdout.readline().split()
        started = psutil.Process(int(pid))
        assert (answer, "SparkSubmit" in " ".join(started.cmdline())) == ("2", True)
        python.kill()
        assert (python.stdout.read(), python.stderr.read()) == ("", "")
    poll(lambda: not started.is_running())


@pytest.mark.process
@pytest.mark.parametrize(("given", "lower"), [((), 10), ((0,), 0)])
def test_java_has_a_lower_priority_than_brokers_unless_that_is_set(
    cache: Path, tmp_path: Path, given: tuple[int, ...], lower: int
) -> None:
    home = install(tmp_path / "java", "17.0.15")
    (home / "bin" / "java").write_text(f"#!/bin/sh\nnice > {tmp_path}/nice\nread line\n")
    found = java.Java("PATH", home, "17.0.15", "17.0.15+6")
    started = gateway.launch(found, spark_home.make(found), "1g", (), *given)
    assert os.getsid(started.pid) == started.pid, "its niceness counts among all processes"
    assert (os.sched_getscheduler(started.pid) == os.SCHED_BATCH) == bool(lower)
    started.stop()
    assert int((tmp_path / "nice").read_text()) - os.nice(0) == lower


@pytest.mark.process
def test_a_java_that_ends_at_once_is_an_error_and_not_waited_for(cache: Path, tmp_path: Path) -> None:
    home = install(tmp_path / "java", "17.0.15")
    (home / "bin" / "java").write_text("#!/bin/sh\necho no memory\nexit 3\n")
    found = java.Java("PATH", home, "17.0.15", "17.0.15+6")
    started = gateway.launch(found, spark_home.make(found), "1g")
    with pytest.raises(PipelineError, match="Java ended with code 3 before Spark answered"):
        started.connect()
    started.stop()
    with pytest.raises(PipelineError, match=f"{home}/bin/java does not start: no memory"):
        gateway.check(found, spark_home.make(found), "1g")


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.soak  # it starts Spark once more, with the scripts of Spark and a Java of theirs
def test_under_spark_submit_the_session_is_the_one_of_spark_submit(cache: Path, tmp_path: Path) -> None:
    found = require_java()
    job = tmp_path / "job.py"
    job.write_text(
        "from mom_pipeline.session import make_session\n"
        "spark = make_session('job')\n"
        "print('session:', spark.sparkContext.master, spark.conf.get('spark.sql.session.timeZone'))\n"
    )
    submitted = subprocess.run(
        [
            spark_home.package() / "bin" / "spark-submit",
            "--master",
            "local[3]",
            "--driver-java-options",
            " ".join(QUICK),
            "--conf",
            "spark.ui.enabled=false",
            job,
        ],
        env={**_ENVIRONMENT, "JAVA_HOME": str(found.home), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=patient(100),
        check=True,
    )
    assert "session: local[3] UTC" in submitted.stdout.splitlines()


@pytest.mark.parametrize("memory", ["", "1", "0g", "1 g", "1g -version", "9999999999g"])
def test_a_memory_that_is_no_size_is_refused(memory: str) -> None:
    with pytest.raises(PipelineError, match="is no size; write a number and a unit, such as 512m or 2g"):
        make_session("tests", "local[1]", memory)


def test_the_jobs_of_a_session_of_spark_connect_are_interrupted() -> None:
    """It has no SparkContext."""
    calls: list[str] = []

    class Connected:
        @property
        def sparkContext(self) -> Any:
            raise PySparkAttributeError("Attribute `sparkContext` is not supported in Spark Connect")

        def interruptAll(self) -> None:
            calls.append("interrupted")

    session.interrupt(cast(SparkSession, Connected()))
    assert calls == ["interrupted"]


def test_the_jobs_of_a_session_are_interrupted(spark: SparkSession) -> None:
    """Those that run; the next ones are made."""
    failures: list[str] = []

    def work() -> None:
        try:
            spark.range(10**15).selectExpr("sum(hash(id))").collect()
        except Exception as error:
            failures.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    poll(lambda: spark.sparkContext.statusTracker().getActiveJobsIds() != [], 60)
    session.interrupt(spark)
    thread.join(60)
    assert failures and not thread.is_alive()
    assert spark.range(3).count() == 3
