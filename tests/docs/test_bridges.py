"""The worked example of docs/bridges.md runs as it stands: two brokers, their rules, a bridge, an order."""

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_readme import run
from tests.support.broker_process import ROOT
from tests.support.forked import Forked
from tests.support.mom_in_path import mom_in_path
from tests.support.patience import patient
from tests.support.polling import poll
from tests.support.ports import reserve_ports

pytestmark = pytest.mark.process

TEXT = (ROOT / "docs" / "bridges.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```(sh|python)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
#: the ports that the example names; here they are others, which are free
PORTS = ("8001", "8002", "61623", "61624")
_STARTED = re.compile(r"^MOM is (ready|on standby)", re.MULTILINE)


@contextlib.contextmanager
def running(command: str, environment: dict[str, str], folder: Path) -> Iterator[None]:
    """A broker in a terminal of its own, from when it serves or is on standby, for the length of a `with`
    block."""
    words = [sys.executable, "-m", "broker_app.cli", *shlex.split(command)[1:]]
    log = folder / f"{words[-1]}.log"
    with (
        log.open("wb") as into,
        Forked(words, cwd=folder, env=environment, stdout=into, stderr=into) as process,
    ):
        try:
            poll(lambda: process.poll() is not None or _STARTED.search(log.read_text()), 60)
            assert process.poll() is None, log.read_text()
            yield
        finally:
            process.terminate()
            process.wait(patient(30))


@pytest.mark.slow
@pytest.mark.timeout(400)  # two brokers and two dozen commands, each a process
def test_the_example_of_two_brokers_runs(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MOM_", "XDG_"))}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    environment |= {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    ports = dict(zip(PORTS, reserve_ports(len(PORTS)), strict=True))
    said = ""
    with contextlib.ExitStack() as brokers:
        environment["PATH"] = f"{brokers.enter_context(mom_in_path())}:{environment['PATH']}"
        for language, snippet in SNIPPETS:
            text = re.sub("|".join(PORTS), lambda found: str(ports[found[0]]), snippet)
            if snippet.startswith("mom up"):
                brokers.enter_context(running(text, environment, tmp_path))
            elif language == "sh":
                said += run(["bash", "-euc", text], environment, tmp_path)
            else:
                said += run([sys.executable, "-W", "error", "-c", text], environment, tmp_path)
    for told in ("one thousand bolts", "two thousand nuts", "exactly-once"):
        assert told in said, said
    steps = [line.split("\t")[:2] for line in said.splitlines() if line.startswith(("login\t", "target\t"))]
    assert steps == [["login", "yes"], ["target", "yes"]]
    [waiting] = [
        row for line in said.splitlines() if (row := line.split("\t"))[0] == "west" and len(row) > 10
    ]
    assert "paused" in waiting


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)", TEXT))))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / "docs" / target).exists()
