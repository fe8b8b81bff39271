"""The data source runs on a cluster whose Python has neither MOM nor its packages, shipped as documented."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import mom_client.blocking
from mom_pipeline.spark import spark_home
from tests.pipeline.published import contents
from tests.pipeline.test_wheel import PROVIDED, unpacked
from tests.support.broker_process import BrokerProcess
from tests.support.children import Child
from tests.support.java import require_java
from tests.support.polling import poll
from tests.support.ports import reserve_ports

pytestmark = [pytest.mark.soak, pytest.mark.slow, pytest.mark.timeout(900)]

_JOB = Path(__file__).with_name("cluster_job.py")
_MESSAGES = 1_000
_WORKERS = 2
#: longest time for a process to start, and for a job, on a busy machine
_START_S, _JOB_S = 120, 400


class Cluster:
    """A standalone master and two workers, of the Spark that pip installs, on loopback. Their Python has
    PySpark, PyArrow and google-crc32c alone; the driver's has the content of the wheel, too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._python = _bare_python(folder / "python")
        self.wheel = unpacked(folder / "wheel")
        self.archive = Path(shutil.make_archive(str(folder / "pyspark_mom"), "zip", self.wheel))
        self._port, self._web, *self._worker_webs = reserve_ports(2 + _WORKERS)
        self._java = require_java()
        # PySpark's own directory, but not in archives: Spark gives the Python that plans 10 s to start.
        self._home = spark_home.make(self._java, {"XDG_CACHE_HOME": str(folder)})

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs master and workers; they have ended afterwards."""
        deploy = "org.apache.spark.deploy"
        with ExitStack() as ended:
            ports = ("--port", str(self._port), "--webui-port", str(self._web))
            ended.enter_context(self._process(f"{deploy}.master.Master", *ports))
            poll(lambda: self._state() is not None, _START_S)
            for number, web in enumerate(self._worker_webs):
                own = ("-c", "1", "-m", "1g", "-d", str(self._folder / f"work{number}"))
                worker = (*own, "--webui-port", str(web), self.master)
                ended.enter_context(self._process(f"{deploy}.worker.Worker", *worker))
            poll(lambda: self._state() == _WORKERS, _START_S)
            yield

    def _state(self) -> int | None:
        """The number of workers that the master knows; None while it does not answer."""
        try:
            with urlopen(f"http://127.0.0.1:{self._web}/json/", timeout=10) as reply:
                return int(json.load(reply)["aliveworkers"])
        except (OSError, ValueError):
            return None

    @contextmanager
    def _process(self, name: str, *arguments: str) -> Iterator[None]:
        log = self._folder / f"{name.rpartition('.')[2]}-{arguments[-2]}.log"
        with log.open("wb") as output:
            command = [str(self._home / "bin" / "spark-class"), name, "--host", "127.0.0.1", *arguments]
            process = Child(command, cwd=self._folder, env=self._environment(), stdout=output, stderr=output)
            try:
                yield
            finally:
                process.terminate()
                try:
                    process.wait(60)
                finally:
                    process.kill()

    def submit(self, *shipped: str, job: list[str]) -> Any:
        """The last line that a job printed."""
        conf = {
            "spark.executor.memory": "512m", "spark.driver.memory": "512m", "spark.ui.enabled": "false",
            "spark.log.level": "ERROR",
            "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        }  # fmt: skip
        options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        command = [
            str(self._home / "bin" / "spark-submit"),
            "--master",
            self.master,
            *options,
            *shipped,
            str(_JOB),
            *job,
        ]
        process = Child(
            command,
            cwd=self._folder,
            env=self._environment(PYTHONPATH=str(self.wheel), PYSPARK_PYTHON=str(self._python)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            output, errors = process.communicate(timeout=_JOB_S)
        finally:
            process.kill()
        assert process.returncode == 0, f"{output[-6_000:]}\n{errors[-2_000:]}"
        return json.loads(output.splitlines()[-1])

    def _environment(self, **more: str) -> dict[str, str]:
        """Variables without anything of the tests' own Python."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "JAVA_HOME": str(self._java.home),
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            **more,
        }


def _bare_python(folder: Path) -> Path:
    """A Python with nothing but what workers need."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in PROVIDED:
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        (packages / name).symlink_to(Path(spec.origin).parent)
    return folder / "bin" / "python"


@pytest.fixture
def cluster(processes: None, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    with made.running():
        yield made


def test_source_stream_and_sink_run_on_workers_that_have_only_arrow(
    cluster: Cluster, broker: BrokerProcess, tmp_path: Path
) -> None:
    sent = [f"{number:05}" for number in range(_MESSAGES)]
    address = f"stomp://{broker.host}:{broker.stomp_port}"
    with mom_client.blocking.connect(address, login=broker.user, passcode=broker.password) as client:
        for body in sent:
            client.send("/queue/cluster.in", body)
    credential = tmp_path / "credential"
    credential.write_text(f"{broker.user}:{broker.password}")
    job = [f"http://{broker.host}:{broker.port}", str(credential)]
    archives = ("--archives", f"{cluster.archive}#mom", "--conf", "spark.executorEnv.PYTHONPATH=mom")
    for number, (shipped, checkpoint) in enumerate(
        ((archives, str(tmp_path / "checkpoint")), (("--py-files", str(cluster.archive)), ""))
    ):
        done = cluster.submit(*shipped, job=[*job, checkpoint])
        assert done["bodies"] == sent
        assert done["modules"] and not [file for file in done["modules"] if str(cluster.wheel) in file]
        assert sorted(contents(broker, "cluster.batch")) == sorted(
            body.encode() for body in sent for _ in range(1 + number)
        )
    assert contents(broker, "cluster.stream") == [body.encode() for body in sent]
