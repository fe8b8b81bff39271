"""`mom sub --notify`: arrivals are reported, and nothing is taken."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from broker_app.cli.base.failures import FAILED, OK, UNREACHABLE, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import BrokerProcess


def test_a_notification_names_what_waits_and_takes_nothing(mom: CommandLine) -> None:
    mom("pub", "notify.shown", "line {{n}}", "-n", "2")
    found = mom("sub", "notify.shown", "--notify", "-n", "1", "-o", "json").json()
    assert (len(found["seqs"]), len(found["ids"]), found["pending"]) == (2, 2, 2)
    assert len(mom("browse", "notify.shown", "-o", "json").json()) == 2


def test_a_command_gets_each_notification(mom: CommandLine, tmp_path: Path) -> None:
    mom("pub", "notify.exec", "a")
    code = "import json, sys; print(json.load(sys.stdin)['pending'], json.loads(sys.argv[1])['queue'])"
    (tmp_path / "show.py").write_text(code)
    command = f"{sys.executable} {tmp_path / 'show.py'} {{}}"
    shown = mom("sub", "notify.exec", "--notify", "-n", "1", "--exec", command)
    assert (shown.code, shown.out) == (OK, "1 notify.exec\n")


def test_each_failure_of_a_command_is_reported_at_once(mom: CommandLine) -> None:
    mom("pub", "notify.false", "a")
    with mom.popen("sub", "notify.false", "--notify", "--exec", "false") as listening:
        assert listening.stderr is not None
        warning = listening.stderr.readline()
        listening.terminate()
    assert "--exec: false ended with 1 for the notification" in warning
    mom("pub", "notify.false", "b")
    failed = mom("sub", "notify.false", "--notify", "-n", "1", "--exec", "false")
    assert (failed.code, "failed for 1 of 1 notifications" in failed.err) == (FAILED, True)


@pytest.mark.parametrize(
    "option", [("--ack", "auto"), ("--selector", "a = 1"), ("--raw",), ("--credit", "3")]
)
def test_options_of_messages_are_refused(mom: CommandLine, option: tuple[str, ...]) -> None:
    refused = mom("sub", "notify.wrong", "--notify", *option, "-n", "1")
    assert (refused.code, "--notify takes no messages" in refused.err) == (USAGE, True)


def test_a_broker_that_is_away_at_first_is_an_error(command_line: CommandLine) -> None:
    refused = command_line("--url", "http://127.0.0.1:9", "sub", "a", "--notify", "-n", "1")
    assert refused.code == UNREACHABLE


def test_after_a_restart_notifications_continue_behind_the_last(
    command_line: CommandLine, tmp_path: Path
) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    try:
        command_line.about(broker)
        command_line("pub", "a", "1")
        with command_line.popen("sub", "a", "--notify", "-n", "2", "-o", "ndjson") as listening:
            assert listening.stdout is not None
            assert '"pending": 1' in listening.stdout.readline()
            broker.restart()
            command_line("pub", "a", "2")
            second = listening.stdout.readline()
            listening.wait()
        assert '"pending": 2' in second
        assert second.count("-") // 4 == 1, "one id: the first message was reported before"
    finally:
        broker.terminate()


def test_at_a_broker_that_was_set_up_again_notifications_begin_with_all_that_waits(
    command_line: CommandLine, tmp_path: Path
) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    try:
        command_line.about(broker)
        command_line("pub", "a", "1")
        with command_line.popen("sub", "a", "--notify", "-n", "2", "-o", "ndjson") as listening:
            assert listening.stdout is not None
            assert len(json.loads(listening.stdout.readline())["ids"]) == 1
            os.kill(listening.pid, signal.SIGSTOP)  # so that it comes when more waits
            broker.terminate()
            shutil.rmtree(broker.data)
            broker.start()
            command_line("pub", "a", "line {{n}}", "-n", "3")
            os.kill(listening.pid, signal.SIGCONT)
            second = json.loads(listening.stdout.readline())
            listening.wait()
        assert (len(second["ids"]), second["unknown_position"]) == (3, True)
    finally:
        broker.terminate()
