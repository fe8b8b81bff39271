"""`mom channel`: messages and requests between sites, against a real broker, which is one site."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest

from broker_app.cli.base.failures import FAILED, OK, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.patience import patient


def test_requests_and_messages_reach_a_program_that_serves_them(mom: CommandLine) -> None:
    (site,) = mom("channel", "ls", "-o", "json").json()
    assert (site["is_here"], site["is_master"], site["handlers"]) == (True, True, 0)
    alone = mom("channel", "request", site["name"], "get")
    assert (alone.code, "noserver" in alone.err, "mom channel serve" in alone.err) == (FAILED, True, True)
    unknown = mom("channel", "send", "1732", "get")
    assert (unknown.code, "mom channel ls" in unknown.err) == (USAGE, True)
    serve = ("channel", "serve", "--exec", "printf '%s,' {}", "-n", "3", "-o", "ndjson")
    with mom.popen(*serve) as serving:
        assert serving.stdout is not None
        assert serving.stderr is not None
        assert "serves the requests of site" in serving.stderr.readline()
        answered = mom("channel", "request", "$master", "get", "AAPL IBM", "@@x")
        assert (answered.code, answered.out) == (OK, "get,AAPL IBM,@x,\n")
        assert mom("channel", "request", site["name"], "-", stdin="piped").out == "piped,\n"
        assert mom("channel", "send", site["name"], "tell").code == OK
        assert serving.wait(patient(20)) == OK
        calls = [json.loads(line) for line in serving.stdout]
    assert [(call["parts"], call["need_response"]) for call in calls] == [
        (["get", "AAPL IBM", "@x"], True),
        (["piped"], True),
        (["tell"], False),
    ]


def test_the_commands_of_the_page_run(mom: CommandLine, broker: BrokerProcess) -> None:
    page = (ROOT / "docs" / "channels.md").read_text(encoding="utf-8")
    (_, serve), (_, *ask) = (
        block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)[:2]
    )
    token = mom("token", "create", "asking").out.strip()
    with mom.popen(*shlex.split(serve)[1:]) as serving:
        assert serving.stderr is not None
        serving.stderr.readline()
        answers = []
        for line in ask:
            command = line.replace("127.0.0.1:8000", f"127.0.0.1:{broker.port}").replace("$MOM_TOKEN", token)
            words = shlex.split(command, comments=True)
            if words[0] == "mom":
                answers.append(mom(*words[1:]).out)
            else:
                answers.append(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        serving.kill()
    assert answers[0] == "served: get AAPL\n\n"
    assert "get AAPL" in answers[2]
    assert len(answers) == 4


def test_without_a_command_each_request_gets_the_same_answer_and_a_failed_command_none(
    mom: CommandLine,
) -> None:
    with mom.popen("channel", "serve", "--answer", "fine", "-n", "1") as serving:
        assert serving.stderr is not None
        serving.stderr.readline()
        assert mom("channel", "request", "$master", "?").out == "fine\n"
        serving.wait(patient(20))
    with mom.popen("channel", "serve", "--exec", "false", "-n", "1") as serving:
        assert serving.stderr is not None
        serving.stderr.readline()
        refused = mom("channel", "request", "$master", "?", "--timeout", "20s")
        assert (refused.code, "keyempty" in refused.err) == (FAILED, True)
        assert serving.wait(patient(20)) == FAILED


@pytest.mark.parametrize("destination", ["$channel.requests", "/topic/$channel.requests"])
def test_sub_is_no_handler_that_never_answers(mom: CommandLine, destination: str) -> None:
    refused = mom("sub", destination, "-n", "1")
    assert (refused.code, "mom channel serve" in refused.err) == (USAGE, True)
