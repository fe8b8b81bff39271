"""Runs without Spark: their names, their folders, their reports, and how they end."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from mom_pipeline.errors import DATA_LOSS, FAILED, TEMPORARY, USAGE, PipelineError
from mom_pipeline.job_folder import Job, JobFolder, broker_folder, state_folder
from mom_pipeline.progress import ApiRefused, ApiUnreachable
from mom_pipeline.runner import begun
from mom_pipeline.spark.explain import explain
from mom_pipeline.stop import Stop
from mom_pipeline.stored_run import StoredRun
from tests.pipeline.runs import RecordingApi, surroundings
from tests.support.polling import poll

RUN = "/pipeline/runs/archive"


def job(**parameters: str) -> Job:
    return Job("archive", "archive", 1, 1, {"out": "/a", **parameters})


def test_a_job_with_other_parameters_is_refused_with_the_difference(tmp_path: Path) -> None:
    with JobFolder(tmp_path, job()).locked():
        assert JobFolder(tmp_path, job()).path == tmp_path / "pipeline" / "archive"
    with JobFolder(tmp_path, job()).locked():
        assert True, "the same parameters are taken"
    with (
        pytest.raises(PipelineError, match='out: "/a" before, "/b" now') as caught,
        JobFolder(tmp_path, job(out="/b")).locked(),
    ):
        pytest.fail("other parameters were taken")
    assert caught.value.code == USAGE
    with (
        pytest.raises(PipelineError, match="version: 1 before, 2 now"),
        JobFolder(tmp_path, Job("archive", "archive", 2, 1, {"out": "/a"})).locked(),
    ):
        pytest.fail("another version was taken")


def test_a_second_run_on_a_machine_is_refused_until_the_first_one_ends(tmp_path: Path) -> None:
    with JobFolder(tmp_path, job()).locked():
        with (
            pytest.raises(PipelineError, match="archive runs already on this machine") as caught,
            JobFolder(tmp_path, job()).locked(),
        ):
            pytest.fail("both run")
        assert caught.value.code == TEMPORARY
    with JobFolder(tmp_path, job()).locked():
        assert (tmp_path / "pipeline" / "archive" / "job.json").exists()


@pytest.mark.parametrize("name", ["", "../a", "a/b", ".a", "A", "a b", "a" * 101])
def test_names_that_are_no_folder_or_cursor_are_refused(name: str) -> None:
    with pytest.raises(PipelineError, match="is no name of a run"):
        Job(name, "archive", 1, 1, {})


def test_state_is_kept_where_other_programs_keep_theirs() -> None:
    assert state_folder({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/mom")
    assert state_folder({"HOME": "/h"}) == Path("/h/.local/state/mom")


def test_two_brokers_of_a_user_have_runs_of_the_same_name(tmp_path: Path) -> None:
    one, other = "http://localhost:8000", "http://127.0.0.1:8010"
    for broker in (one, other):
        own = Job("archive", "archive", 1, 1, {"source": broker})
        with JobFolder(broker_folder(tmp_path, broker, "archive"), own).locked():
            pass
    assert broker_folder(tmp_path, one, "archive") == tmp_path / "brokers" / "127.0.0.1-8000"
    assert (
        broker_folder(tmp_path, "http://127.0.0.1:8000/", "archive")
        == tmp_path / "brokers" / "127.0.0.1-8000"
    )
    assert broker_folder(tmp_path, "https://[2001:db8::1]", "a").name == "2001_db8__1-443"


def test_a_run_that_a_former_version_began_is_found_by_its_broker_alone(tmp_path: Path) -> None:
    for name, parameters in (
        ("archive", {"source": "http://127.0.0.1:8000"}),
        ("files", {"source": "file:///var/lib/mom"}),
        ("replay", {}),
    ):
        with JobFolder(tmp_path, Job(name, "archive", 1, 1, parameters)).locked():
            pass
        assert broker_folder(tmp_path, "http://localhost:8000", name) == tmp_path
    other = broker_folder(tmp_path, "http://localhost:8010", "archive")
    assert other == tmp_path / "brokers" / "127.0.0.1-8010"
    # Once a broker has a run of its own, that is the one.
    with JobFolder(other, Job("replay", "replay", 1, 1, {})).locked():
        assert broker_folder(tmp_path, "http://localhost:8010", "replay") == other


def test_a_run_reports_its_begin_its_batches_and_its_end(tmp_path: Path) -> None:
    api = RecordingApi()
    api.journal = "2a"
    with begun(job(), surroundings(tmp_path, api)) as run:
        run.progress.batch(7, 100)
        run.progress.batch(5, 50)
        run.progress.reach({"A": {"epoch": 1, "pos": 12, "tag": 42}})
        run.progress.set(lag=3)
    (start,) = api.bodies("PUT", RUN)
    assert (start["job"], start["parameters"]) == ("archive", {"out": "/a"})
    reports = api.bodies("POST", f"{RUN}/report")
    assert {report["run_id"] for report in reports} == {start["run_id"]}
    assert [report["batch"]["rows"] for report in reports if "batch" in report] == [7, 5]
    last = reports[-1]
    assert (last["state"], last["rows"], last["lag"]) == ("done", 12, 3)
    assert last["offsets"] == {"A": {"epoch": 1, "pos": 12}}
    assert api.bodies("PUT", "/pipeline/cursors/archive") == [{"position": 12}]
    assert last["lag_s"] == 1.5


def test_the_cursor_of_another_broker_is_left_alone(tmp_path: Path) -> None:
    api = RecordingApi()
    api.journal = "2b"
    with begun(job(), surroundings(tmp_path, api)) as run:
        run.progress.reach({"A": {"epoch": 1, "pos": 12, "tag": 42}})
    assert not api.bodies("PUT", "/pipeline/cursors/archive")


def test_a_name_that_runs_elsewhere_is_refused(tmp_path: Path) -> None:
    api = RecordingApi()
    api.problems["PUT", RUN] = ApiRefused("archive runs already, on B", conflict=True)
    with (
        pytest.raises(PipelineError, match="runs already, on B") as caught,
        begun(job(), surroundings(tmp_path, api)),
    ):
        pytest.fail("both run")
    assert caught.value.code == TEMPORARY


@pytest.mark.process
def test_the_name_of_a_run_that_was_killed_is_free_at_once(tmp_path: Path) -> None:
    api, around = RecordingApi(), surroundings(tmp_path, RecordingApi())
    process = os.fork()
    if not process:
        with suppress(BaseException), begun(job(), around):
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(process, 0)[1])
    (killed,) = [json.loads(path.read_text())["run_id"] for path in around.state.rglob("run.json")]
    for _ in range(2):
        with begun(job(), surroundings(tmp_path, api)):
            pass
    first, *others = api.bodies("POST", f"{RUN}/report")
    assert first == {"run_id": killed, "state": "failed", "error": "its process was killed"}
    assert {report["state"] for report in others} == {"done"}


def test_a_run_without_the_api_goes_on_and_shows_that_once(tmp_path: Path) -> None:
    api = RecordingApi()
    api.reachable = False
    said: list[str] = []
    with begun(job(), surroundings(tmp_path, api, said)) as run:
        run.progress.batch(7, 100)
    assert len(api.requests) >= 2
    assert said == ["cannot reach the broker: refused; the run goes on without the console"]


def _is_stored(api: RecordingApi, cursor: str, position: int) -> bool:
    return {"position": position} in api.bodies("PUT", cursor)


def test_a_console_that_refuses_a_run_is_shown_once_although_the_broker_keeps_its_cursor(
    tmp_path: Path,
) -> None:
    """As with a token that may read the journal and nothing else."""
    api, said = RecordingApi(), list[str]()
    api.journal, cursor = "2a", "/pipeline/cursors/archive"
    for method, path in (("PUT", RUN), ("POST", f"{RUN}/report"), ("PUT", f"{RUN}/reconciliation")):
        api.problems[method, path] = ApiRefused("the right administer is missing")
    with begun(job(), surroundings(tmp_path, api, said)) as run:
        for position in (12, 13):
            run.progress.reach({"A": {"epoch": 1, "pos": position, "tag": 42}})
            poll(partial(_is_stored, api, cursor, position), 30)
        run.reporter.store("reconciliation", {"states": {}})
    assert len(api.bodies("POST", f"{RUN}/report")) >= 2
    assert said == ["the console does not show this run: the right administer is missing"]


def test_a_run_that_may_not_read_the_journal_is_shown_in_the_console(tmp_path: Path) -> None:
    api, said = RecordingApi(), list[str]()
    api.problems["GET", "/journal/span"] = ApiRefused("the right journal:read is missing")
    with begun(job(), surroundings(tmp_path, api, said)) as run:
        run.progress.reach({"A": {"epoch": 1, "pos": 12, "tag": 42}})
    assert said == ["the broker does not keep its journal for this run: the right journal:read is missing"]
    assert api.states[-1] == "done"


def test_a_result_is_stored_for_a_run_that_the_console_has_forgotten(tmp_path: Path) -> None:
    api, said = RecordingApi(), list[str]()
    path = f"{RUN}/reconciliation"
    with begun(job(), surroundings(tmp_path, api, said)) as run:
        api.problems["PUT", path] = ApiRefused("there is no run", missing=True)
        api.before["PUT", RUN] = api.problems.clear
        run.reporter.store("reconciliation", {"states": {"ok": 1}})
    start = api.bodies("PUT", RUN)[-1]
    assert api.bodies("PUT", path)[-1] == {"states": {"ok": 1}, "run_id": start["run_id"]}
    assert (len(api.bodies("PUT", RUN)), said) == (2, [])


@pytest.mark.parametrize("reachable", [True, False])
def test_a_result_that_the_console_does_not_store_is_no_failure(tmp_path: Path, reachable: bool) -> None:
    api, said = RecordingApi(), list[str]()
    api.problems["PUT", f"{RUN}/reconciliation"] = ApiRefused("/file: is too long")
    with begun(job(), surroundings(tmp_path, api, said)) as run:
        api.reachable = reachable
        run.reporter.store("reconciliation", {"states": {"ok": 1}})
    refused = "the console does not show the result of this run: /file: is too long"
    away = "cannot reach the broker: refused; the run goes on without the console"
    assert said == [refused if reachable else away]


def test_the_console_learns_the_command_that_starts_a_run(tmp_path: Path) -> None:
    api = RecordingApi()
    command = "mom pipeline run archive --out '/srv/my archive'"
    with begun(job(), replace(surroundings(tmp_path, api), command=command)):
        pass
    assert api.bodies("PUT", RUN)[0]["command"] == command


def test_a_run_ends_when_the_console_asks_for_it(tmp_path: Path) -> None:
    api = RecordingApi()
    api.stop_requested = True
    with begun(job(), surroundings(tmp_path, api)) as run:
        assert run.stop.wait(30)
    assert "stop" in run.stop.reason
    assert api.states[-1] == "stopped"


def test_a_signal_stops_a_run_and_interrupts_its_work(tmp_path: Path) -> None:
    api = RecordingApi()
    interrupted = Stop()
    with (
        begun(job(), surroundings(tmp_path, api)) as run,
        run.stop.interrupting(lambda: interrupted.request("test")),
    ):
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupted.wait(30)
        raise RuntimeError("the work was interrupted")
    assert (run.stop.reason, api.states[-1]) == ("SIGTERM", "stopped")


def test_a_failure_is_reported_with_its_sentence(tmp_path: Path) -> None:
    api = RecordingApi()
    with (
        pytest.raises(PipelineError, match="the disk is full"),
        begun(job(), surroundings(tmp_path, api)),
    ):
        raise OSError("the disk is full")
    last = api.bodies("POST", f"{RUN}/report")[-1]
    assert last["state"] == "failed"
    assert "the disk is full" in last["error"]


@pytest.mark.parametrize(
    ("problem", "dropped", "said"),
    [
        (None, ["archive"], ""),
        (ApiRefused("there is no cursor 'archive'", missing=True), [], ""),
        (ApiRefused("the right journal:read is missing"), [], "the right journal:read is missing"),
        (ApiUnreachable("cannot reach the broker"), [], "cannot reach the broker"),
    ],
)
def test_a_run_is_reset_whether_or_not_its_cursor_is_dropped(
    tmp_path: Path, problem: Exception | None, dropped: list[str], said: str
) -> None:
    api, heard = RecordingApi(), list[str]()
    path = "/pipeline/cursors/archive"
    if problem is not None:
        api.problems["DELETE", path] = problem
    with begun(job(), surroundings(tmp_path, api)):
        pass
    assert StoredRun(tmp_path / "state", "archive").reset(api, heard.append) == dropped
    assert len(api.bodies("DELETE", path)) == 1
    assert heard == (
        [f"the broker keeps journal for the cursor archive, until DELETE {path}: {said}"] if said else []
    )
    with pytest.raises(PipelineError, match="there is no run 'archive'"):
        StoredRun(tmp_path / "state", "archive")


_TRACE = """[PYTHON_DATA_SOURCE_ERROR] Failed when running the instance: Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    raise DataLoss(
{error}

\tat org.apache.spark.sql.errors.QueryExecutionErrors$.x(QueryExecutionErrors.scala:1)
Caused by: java.lang.Exception: nothing
=== Streaming Query ===
Identifier: archive event [id = 1, runId = 2]
"""


@pytest.mark.parametrize(
    ("error", "code", "what"),
    [
        ("pyspark_mom.errors.DataLoss: [DATA_LOSS] A: 1 is gone", DATA_LOSS, "[DATA_LOSS] A: 1 is gone"),
        ("pyspark_mom.errors.BrokerUnreachable: [BROKER_UNREACHABLE] A", TEMPORARY, "[BROKER_UNREACHABLE] A"),
        ("pyspark_mom.errors.InvalidOption: [INVALID_OPTION] url: x", USAGE, "[INVALID_OPTION] url: x"),
        ("OSError: [Errno 28] No space left", FAILED, "[Errno 28] No space left (OSError)"),
    ],
)  # fmt: skip
def test_an_error_of_spark_becomes_the_line_that_matters(error: str, code: int, what: str) -> None:
    found = explain(RuntimeError(_TRACE.format(error=error)))
    assert (found.code, found.what) == (code, what)
