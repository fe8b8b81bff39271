"""The page and the notebook for the first ten minutes: their commands and cells run as they stand."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import CommandLine
from tests.pipeline import commands
from tests.support.broker_process import ROOT, BrokerProcess, StartBroker

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.process]

PAGE = (ROOT / "docs" / "pipeline-quickstart.md").read_text(encoding="utf-8")
NOTEBOOK = ROOT / "docs" / "notebooks" / "first_chart.ipynb"
#: commands of the page that other tests run: what installs, stays, or is started by a test in another way
ELSEWHERE = ("make ", "pip ", "jupyter ", "mom up ", "mom pipeline doctor", "export MOM_TOKEN=")
SENT = 40


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A broker that keeps what was consumed."""
    return start_broker("--journal-retention-bytes", "1000000000")


@pytest.fixture
def mom(tmp_path: Path, broker: BrokerProcess) -> CommandLine:
    (tmp_path / "home").mkdir()
    made = CommandLine(tmp_path / "home")
    made.about(broker)
    return made


def lines() -> list[str]:
    """The commands of the page, without the signs that leave them running."""
    found = "\n".join(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    return [line.removesuffix(" &").removesuffix(" > /dev/null") for line in found.splitlines() if line]


def test_the_commands_of_the_page_run_one_after_the_other(
    spark: SparkSession, broker: BrokerProcess, mom: CommandLine, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(mom.environment["HOME"])
    monkeypatch.setenv("XDG_STATE_HOME", mom.environment["HOME"])
    for line in lines():
        words = shlex.split(line.replace("1800 --rate 30", f"{SENT}").replace("1800", f"{SENT}"))
        if line.startswith(ELSEWHERE):
            continue
        if line.startswith("mom pipeline "):
            commands.run(broker, *words[2:])
        elif words[0] == "python":
            exec(compile(words[2], "the page", "exec"), {})
        else:
            done = mom(*words[1:])
            assert done.code == 0, f"{line}: {done.err}"
    shown = capsys.readouterr().out
    assert list(Path("archive").glob("message/v=1/*/*/*/*.parquet"))
    replayed = json.loads(shown[shown.rindex("[\n") :])
    assert [(row["destination"], row["messages"]) for row in replayed] == [("/queue/orders", 1)]


def test_the_cells_of_the_notebook_draw_what_was_sent(
    spark: SparkSession,
    broker: BrokerProcess,
    mom: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    assert mom("pub", "orders", "order {{n}}", "-n", str(SENT)).code == 0
    assert mom("sub", "orders", "-n", str(SENT)).code == 0
    (tmp_path / "login").write_text(f"{broker.user}:{broker.password}")
    monkeypatch.setenv("MOM_URL", broker.url)
    monkeypatch.setenv("MOM_TOKEN_FILE", str(tmp_path / "login"))
    drawn: list[Any] = []
    names: dict[str, Any] = {"display": lambda content, raw: drawn.append(content)}
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), "it is stored without results"
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    messages, times = (content["application/vnd.vegalite.v5+json"]["data"]["values"] for content in drawn)
    counts = {
        event: sum(row["messages"] for row in messages if row["event"] == event)
        for event in ("ENQUEUE", "ACK")
    }
    assert counts == {"ENQUEUE": SENT, "ACK": SENT}
    assert all(row["p95_ms"] >= 0 for row in times) and {row["event"] for row in times} >= {"ACK"}
