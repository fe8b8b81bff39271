"""`mom pipeline` commands with a real broker and the Spark of the tests."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pytest
from pyspark.sql import SparkSession

from broker_app.cli.base.failures import USAGE, Failure
from mom_pipeline.archive_tables import MESSAGE
from mom_pipeline.errors import TEMPORARY
from mom_pipeline.job_folder import JobFolder, stored_job
from tests.journal.stage import quick_journal
from tests.pipeline import commands, traffic
from tests.pipeline.archived import write
from tests.pipeline.published import contents
from tests.pipeline.stage import JournalStage
from tests.pipeline.test_spark import work
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.process]


class Shell:
    """Runs commands, with the state of their runs in a folder of this test."""

    def __init__(self, broker: BrokerProcess, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.broker = broker
        self.state = state
        self.said = ""
        self._capsys = capsys

    def __call__(self, *words: str, form: str = "json") -> str:
        """The standard output; standard error is in `said`."""
        try:
            commands.run(self.broker, *words, "--state", str(self.state), form=form)
        finally:
            written = self._capsys.readouterr()
            self.said = written.err
        return written.out

    def refusal(self, *words: str) -> Failure:
        with pytest.raises(Failure) as raised:
            self(*words)
        return raised.value


@pytest.fixture
def shell(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Shell:
    return Shell(broker, tmp_path / "state", capsys)


@pytest.fixture(scope="module")
def messages() -> list[dict[str, Any]]:
    rows = traffic.traffic("a", seed=3, messages=40).rows
    return [row for row in rows if row["body"] is not None]


@pytest.fixture(scope="module")
def archived(messages: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("archive")
    write(root, "q", 0, messages, table=MESSAGE)
    return root


def test_a_replay_is_shown_then_confirmed_then_made_once(
    shell: Shell, archived: Path, messages: list[dict[str, Any]]
) -> None:
    chosen = [row for row in messages if row["destination"] == "/queue/busy"]
    busy = [row["body"] for row in chosen]
    command = ("run", "replay", "--archive", str(archived), "--destinations", "busy", "--to", "shown")
    (count,) = json.loads(shell(*command, "--dry-run"))
    assert (count["destination"], count["messages"]) == ("/queue/busy", len(busy))
    for name, moment in (("first_ts", min), ("last_ts", max)):
        wanted = moment(row["event_ts"] for row in chosen)
        assert round(datetime.fromisoformat(count[name]).timestamp() * 1_000_000) == wanted
    refused = shell.refusal(*command)
    assert (refused.code, refused.what) == (USAGE, "confirmation needs a terminal")
    assert f"send {len(busy)} messages to shown" in shell.said
    assert "/queue/busy of a: " in shell.said and "such as " in shell.said
    assert contents(shell.broker, "shown") == []
    done = json.loads(shell(*command, "--yes"))
    assert (done["rows"], done["positions"]) == (len(busy), {"a": chosen[-1]["position"] + 1})
    assert contents(shell.broker, "shown") == busy
    assert shell(*command, "--yes") == ""
    assert "all of them were sent before; to send them again, give another --name" in shell.said
    assert contents(shell.broker, "shown") == busy


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--to", "/temp-queue/x"), "/temp-queue/x takes no messages of an archive"),
        (("--to", "orders.>"), "orders.> is a pattern"),
        (("--until", "yesterday"), "--until: 'yesterday' is no time with a time zone"),
        (("--name", "My Replay"), "'My Replay' is no name of a run"),
        (("--where", "no_column = 1"), "--where: "),
    ],
)
def test_a_replay_with_wrong_options_is_refused(
    shell: Shell, archived: Path, words: tuple[str, ...], what: str
) -> None:
    refused = shell.refusal("run", "replay", "--archive", str(archived), *words)
    assert (refused.code, what in refused.what) == (USAGE, True), refused.what
    assert not shell.state.exists()


# ------------------------------------------------------------------- the state of runs


class Kept(NamedTuple):
    """A journal, and the folder with the state of its run and what that wrote."""

    stage: JournalStage
    folder: Path


class Archive:
    """An archive of the journal of a stage, made by commands."""

    def __init__(self, shell: Shell, stage: JournalStage, out: Path) -> None:
        self.stage = stage
        self.out = out
        self.shell = shell

    def run(self) -> Any:
        source = ("--source", self.stage.url, "--broker", "A", "--out", str(self.out))
        return json.loads(self.shell("run", "archive", *source))

    def offsets(self, *words: str) -> Any:
        return json.loads(self.shell("offsets", "archive", *words))

    @property
    def positions(self) -> set[int]:
        files = f"{self.out}/event/v=1/*/*/*/*.parquet"
        return {row[0] for row in duckdb.execute(f"SELECT position FROM read_parquet('{files}')").fetchall()}


@pytest.fixture
def archive(shell: Shell, stage: JournalStage, tmp_path: Path) -> Archive:
    work(stage, 10)
    made = Archive(shell, stage, tmp_path / "out")
    made.run()
    return made


@pytest.fixture(scope="module")
def kept(
    spark: SparkSession, broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kept]:
    """The journal and the folder of a run that all tests leave as it is."""
    folder = tmp_path_factory.mktemp("kept")
    stage = JournalStage(partial(quick_journal, folder / "journal"), f"file://{folder / 'journal'}")
    work(stage, 10)
    source = ("--source", stage.url, "--broker", "A", "--out", str(folder / "out"))
    commands.run(broker, "run", "archive", *source, "--state", str(folder / "state"))
    yield Kept(stage, folder)
    stage.journal.close()


@pytest.fixture
def unchanged(kept: Kept, broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Archive:
    """An archive whose run is refused whatever is wanted of it."""
    return Archive(Shell(broker, kept.folder / "state", capsys), kept.stage, kept.folder / "out")


def test_offsets_are_shown_and_set_and_the_former_checkpoint_is_kept(archive: Archive, shell: Shell) -> None:
    stage, first = archive.stage, archive.stage.end
    assert archive.offsets() == [
        {"broker": "A", "table": "event", "epoch": 1, "position": first, "until": None}
    ]
    work(stage, 10)
    skipped = first + 4
    refused = shell.refusal("offsets", "archive", "--set", json.dumps({"A": skipped}))
    assert refused.what == "confirmation needs a terminal"
    assert f"event of A: {first} → {skipped}; 4 positions are left out" in shell.said
    kept = Path(archive.offsets("--set", json.dumps({"A": skipped}), "--yes")["kept"])
    assert (kept / "event" / "commits" / "0").exists()
    assert archive.offsets() == []
    archive.run()
    written = {row["position"] for row in stage.expected}
    assert archive.positions == written - set(range(first, skipped))
    assert archive.offsets()[0]["position"] == stage.end


def test_an_archive_whose_offsets_are_set_back_is_refused_before_it_doubles_rows(
    archive: Archive, shell: Shell
) -> None:
    """And the lineage of the run has the error."""
    before = archive.positions
    archive.offsets("--set", '{"A": 3}', "--yes")
    assert "positions are read again" in shell.said
    with pytest.raises(Failure, match="already, so these positions were archived before"):
        archive.run()
    assert archive.positions == before
    event = events(shell, "archive")[-1]
    assert event["eventType"] == "FAIL"
    assert "archived before" in event["run"]["facets"]["errorMessage"]["message"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("5", "a JSON object with the names of 1 to 256 brokers is needed"),
        ('{"B": 5}', "startingOffsets: names B, but the brokers are A"),
        ('{"A": -5}', "the position of A is neither a number"),
        ('{"A": "earliest"}', "has no positions"),
    ],
)
def test_what_is_no_position_is_not_set(unchanged: Archive, text: str, what: str) -> None:
    refused = unchanged.shell.refusal("offsets", "archive", "--set", text, "--yes")
    assert (refused.code, what in refused.what) == (USAGE, True), refused.what
    assert unchanged.offsets()[0]["position"] == unchanged.stage.end


def test_the_state_of_a_run_that_runs_is_not_changed(unchanged: Archive) -> None:
    shell = unchanged.shell
    with JobFolder(shell.state, stored_job(shell.state, "archive")).locked():
        for words in (("offsets", "archive", "--set", '{"A": 3}', "--yes"), ("reset", "archive", "--yes")):
            refused = shell.refusal(*words)
            assert (refused.code, refused.what) == (TEMPORARY, "archive runs already on this machine")
    assert unchanged.offsets()[0]["position"] == unchanged.stage.end


def test_a_run_that_is_reset_begins_again_with_any_parameters(archive: Archive, shell: Shell) -> None:
    archive.out = archive.out.with_name("elsewhere")
    with pytest.raises(Failure, match="begin again with mom pipeline reset archive"):
        archive.run()
    assert shell.refusal("reset", "archive").what == "confirmation needs a terminal"
    assert f"the next run reads {archive.stage.url} again" in shell.said
    shell("reset", "archive", "--yes")
    assert list((shell.state / "pipeline").iterdir()) == []
    archive.run()
    assert archive.positions == {row["position"] for row in archive.stage.expected}


def test_the_cursors_of_a_run_that_is_reset_are_dropped(
    shell: Shell, stage: JournalStage, tmp_path: Path
) -> None:
    """And not those of other runs."""
    source = ("--source", stage.url, "--broker", "A", "--out", str(tmp_path / "out"), "--name", "kept")
    shell("run", "archive", "--messages", *source)
    path = "/api/v1/pipeline/cursors"
    for name in ("kept", "kept.message", "kept.home"):
        assert shell.broker.request("PUT", f"{path}/{name}", json_body={"position": 1}).status == 200
    done = json.loads(shell("reset", "kept", "--yes"))
    assert done["cursors"] == ["kept", "kept.message"]
    left = {cursor["name"] for cursor in shell.broker.request("GET", path).json()["items"]}
    assert (left & {"kept", "kept.message", "kept.home"}) == {"kept.home"}


def test_a_replay_that_is_reset_sends_its_messages_again(
    shell: Shell, archived: Path, messages: list[dict[str, Any]]
) -> None:
    bodies = [row["body"] for row in messages]
    command = ("run", "replay", "--archive", str(archived), "--to", "twice", "--name", "twice", "--yes")
    shell(*command)
    (offset,) = json.loads(shell("offsets", "twice"))
    assert (offset["broker"], offset["position"]) == ("a", messages[-1]["position"] + 1)
    refused = shell.refusal("offsets", "twice", "--set", '{"a": 1}', "--yes")
    assert refused.what == "the offsets of a run of replay cannot be set"
    shell("reset", "twice", "--yes")
    assert "the next run sends the messages again" in shell.said
    shell(*command)
    assert contents(shell.broker, "twice") == bodies + bodies


def test_a_run_without_a_folder_is_not_known(unchanged: Archive) -> None:
    for words in (("offsets", "archiv"), ("reset", "Archive")):
        refused = unchanged.shell.refusal(*words)
        assert (refused.code, refused.fix.startswith("use one of: archive;")) == (USAGE, True), refused


# ------------------------------------------------------------------------------ lineage


def events(shell: Shell, name: str) -> list[Any]:
    """The events of all runs of a name, oldest first."""
    files = sorted((shell.state / "pipeline" / name / "lineage").glob("*.json"))
    return [json.loads(file.read_text()) for file in files]


def test_the_lineage_of_each_run_has_what_it_read_and_wrote(archive: Archive, shell: Shell) -> None:
    first = archive.stage.end
    work(archive.stage, 5)
    archive.run()
    one, two = events(shell, "archive")
    for event in (one, two):
        assert event["eventType"] == "COMPLETE"
        assert event["schemaURL"].endswith("#/$defs/RunEvent")
        assert (event["job"]["name"], uuid.UUID(event["run"]["runId"]).version) == ("archive", 4)
        (read,), (wrote,) = event["inputs"], event["outputs"]
        assert (read["namespace"], read["name"]) == (archive.stage.url, "A")
        assert (wrote["namespace"], wrote["name"]) == ("file", f"{archive.out}/event")
        facets = [*read["inputFacets"].values(), *wrote["outputFacets"].values()]
        assert all({"_producer", "_schemaURL"} <= facet.keys() for facet in facets)
        files = wrote["outputFacets"]["mom_files"]
        assert (archive.out / files["manifest"] / f"{files['batches'][-1]}.json").exists()
    read = [event["inputs"][0]["inputFacets"]["mom_positions"] for event in (one, two)]
    assert [(each["start"]["pos"], each["end"]["pos"]) for each in read] == [
        (1, first),
        (first, archive.stage.end),
    ]
    rows = [event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] for event in (one, two)]
    assert sum(rows) == len(archive.stage.expected)
