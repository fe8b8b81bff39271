"""The example of docs/channels.md runs as it stands, and its decision names tests that exist."""

import re
import shlex
from pathlib import Path

import pytest

from broker_app.cli.base.failures import OK
from tests.cli.conftest import CommandLine
from tests.support.broker_process import ROOT, StartBroker

SECTION = (
    (ROOT / "docs" / "channels.md").read_text(encoding="utf-8").partition("## Handlers in the broker")[2]
)


def snippet(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_each_point_of_the_contract_has_tests() -> None:
    decision = (ROOT / "docs" / "decisions" / "0029-message-channels.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([SPAT]\d\d[^|]*) \|", decision, re.MULTILINE)
    points = {*re.findall(r"[SPAT]\d\d", " ".join(rows))}
    numbers = {"S": range(1, 23), "P": range(1, 22), "A": range(1, 10), "T": (*range(1, 9), 10, 15)}
    assert points == {f"{kind}{at:02}" for kind, found in numbers.items() for at in found}
    sources = "".join(path.read_text() for path in (ROOT / "tests" / "channels").glob("test_*.py"))
    tests = set(re.findall(r"def (test_\w+)", sources))
    assert set(re.findall(r"`(test_\w+)`", decision)) <= tests


@pytest.mark.process
def test_a_function_in_the_broker_answers_requests(start_broker: StartBroker, tmp_path: Path) -> None:
    for folder in ("home", "reflexes"):
        (tmp_path / folder).mkdir()
    (tmp_path / "reflexes" / "prices.py").write_text(snippet("python"))
    up, declare, request = snippet("sh").splitlines()
    mom = CommandLine(tmp_path / "home")
    mom.about(start_broker(*up.replace("reflexes", str(tmp_path / "reflexes")).split()[2:]))
    declared = mom(*shlex.split(declare)[1:])
    assert declared.code == OK, declared.err
    answered = mom(*shlex.split(request)[1:])
    assert (answered.code, answered.out) == (OK, snippet("console")), answered.err
    (site,) = mom("channel", "ls", "-o", "json").json()
    assert (site["handlers"], site["functions"]) == (1, ["prices"])
    refused = mom("channel", "request", "$master", "put", "AAPL")
    assert "reflex prices has returned without an answer" in refused.err
