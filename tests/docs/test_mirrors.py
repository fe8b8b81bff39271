"""The worked example of docs/mirrors.md runs as it stands: a main, its mirror, a message, a switch-over."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path

import pytest

from tests.docs.test_bridges import running
from tests.docs.test_readme import run
from tests.support.broker_process import ROOT
from tests.support.mom_in_path import mom_in_path
from tests.support.patience import patient
from tests.support.ports import reserve_ports

pytestmark = pytest.mark.process

TEXT = (ROOT / "docs" / "mirrors.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```(sh|python)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
#: the ports that the example names; here they are others, which are free
PORTS = ("8001", "8002", "61623", "61624")


@pytest.mark.timeout(200)  # two brokers and eight commands, each a process
def test_the_example_of_two_brokers_runs(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MOM_", "XDG_"))}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    environment |= {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment["MOM_LEASE_S"] = f"{patient(3.0):.1f}"
    ports = dict(zip(PORTS, map(str, reserve_ports(len(PORTS))), strict=True))
    kept = tmp_path / "environment"
    output = ""
    with contextlib.ExitStack() as brokers:
        environment["PATH"] = f"{brokers.enter_context(mom_in_path())}:{environment['PATH']}"
        for language, snippet in SNIPPETS:
            text = re.sub("|".join(PORTS), lambda found: ports[found[0]], snippet)
            text = text.replace("/tmp/B1.journal", str(tmp_path / "journal"))
            if snippet.startswith("mom up"):
                brokers.enter_context(running(text, environment, tmp_path))
            elif language == "sh":
                # A variable that one snippet exports is set in the next one.
                output += run(["bash", "-euc", f"{text}\nenv -0 > {kept}"], environment, tmp_path)
                pairs = (pair.partition("=") for pair in kept.read_text().split("\0") if pair)
                environment = {name: value for name, _, value in pairs}
            else:
                output += run([sys.executable, "-W", "error", "-c", text], environment, tmp_path)
        left = run(
            ["mom", "queue", "show", "orders", "--url", f"http://127.0.0.1:{ports['8002']}"],
            environment,
            tmp_path,
        )
    assert "\ndepth\t0\n" in left, "the message was acknowledged"
    assert f"stomp://127.0.0.1:{ports['61624']} one thousand bolts" in output
    assert f"to\t127.0.0.1:{ports['8002']}" in output


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)", TEXT))))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / "docs" / target).exists()
