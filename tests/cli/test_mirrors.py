"""`mom mirror`: the brokers that share a journal, planned switch-overs and forced takeovers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_app.cli.base.failures import CONFLICT, NOT_FOUND, OK, REFUSED, USAGE
from tests.cli.conftest import CommandLine
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.mirrors import Mirrors, is_followed, mirrors_in, serves, status, wait_until_serving
from tests.support.polling import poll

pytestmark = pytest.mark.process


@pytest.fixture
def mirrors(processes: None, tmp_path: Path) -> Iterator[Mirrors]:
    with mirrors_in(tmp_path, "B1", f"file:{tmp_path}/journal") as made:
        yield made


def test_a_planned_switchover_is_shown_before_it_is_carried_out(
    command_line: CommandLine, mirrors: Mirrors
) -> None:
    main, mirror = mirrors.pair()
    # In its first seconds: a broker that is ready answers at every port, and to the commands of its machine.
    assert command_line("token", "create", "first", "--data", str(main.data)).code == OK
    assert main.request("GET", "/login/").status == 200
    poll(lambda: is_followed(main))
    command_line.about(main)
    shown = command_line("mirror", "status")
    assert f"lease held by 127.0.0.1:{main.port}, epoch 1" in shown.err
    assert sorted(row[:3] for row in shown.rows[1:3]) == sorted(
        [[f"127.0.0.1:{main.port}", "1", "active"], [f"127.0.0.1:{mirror.port}", "-1", "standby"]]
    )

    what = f"127.0.0.1:{mirror.port} takes over; lost: 0 persistent and about 0 non-persistent messages"
    preview = command_line("mirror", "switchover", "--dry-run")
    assert (preview.code, what in preview.err) == (OK, True)
    unconfirmed = command_line("mirror", "switchover")
    assert (unconfirmed.code, what in unconfirmed.err) == (USAGE, True)
    refused = command_line.at_terminal("mirror", "switchover", answer="n\n")
    assert (refused.code, "nothing was done" in refused.out) == (REFUSED, True)
    unknown = command_line("mirror", "switchover", "--to", "127.0.0.1:1", "--yes")
    assert (unknown.code, "'127.0.0.1:1' is not on standby" in unknown.err) == (CONFLICT, True)
    assert serves(main)

    done = command_line("mirror", "switchover", "--yes", "--reason", "new kernel", "-o", "json")
    assert (done.code, done.json()["to"]) == (OK, f"127.0.0.1:{mirror.port}")
    wait_until_serving(mirror)
    poll(lambda: is_followed(mirror))
    command_line.about(mirror)
    found = command_line("mirror", "status", "-o", "json").json()
    assert (found["takeovers"][0]["cause"], found["takeovers"][0]["non_persistent_lost"]) == ("switchover", 0)
    assert (
        "lost were no persistent messages, and 0 non-persistent ones" in command_line("mirror", "status").out
    )


def test_a_drill_and_a_pause_change_nothing_but_who_may_take_over(
    command_line: CommandLine, mirrors: Mirrors
) -> None:
    main, mirror = mirrors.pair()
    command_line.about(main)
    assert command_line("pub", "orders", "one").code == OK
    at_active = command_line("mirror", "drill")
    assert (at_active.code, "this broker is active" in at_active.err) == (CONFLICT, True)
    command_line.about(mirror)
    done = command_line("mirror", "drill")
    assert (done.code, "this standby could serve now" in done.err) == (OK, True), done.err
    assert "messages that wait: 1, of them read: 1" in done.out
    assert [row[:2] for row in done.rows[1:]] == [
        ["store", "yes"], ["journal", "yes"], ["configuration", "yes"], ["settings", "yes"]
    ]  # fmt: skip

    def restart_refusal() -> str:
        return str(main.request("GET", "/api/v1/broker").json()["restart_refusal"])

    assert "a mirror would take over while this broker restarts" in restart_refusal()
    wrong = command_line("mirror", "pause", "--for", "0s")
    assert (wrong.code, "less than 1 s" in wrong.err) == (USAGE, True)
    paused = command_line("mirror", "pause", "--for", "20m", "--reason", "a new disk", "-o", "json")
    assert (paused.code, paused.json()["pause"]["user"]) == (OK, "admin")
    poll(lambda: status(main)["pause"] is not None)
    assert "mirror would" not in restart_refusal()
    shown = command_line("mirror", "status").err
    assert "takeovers are paused for" in shown and "by admin: a new disk; end it with" in shown
    main.terminate()
    poll(lambda: "does not take over" in mirror.log)
    refused = mirror.request("GET", "/health/ready")
    assert (refused.status, "has paused takeovers" in refused.json()["detail"]) == (503, True)
    assert command_line("mirror", "resume").code == OK
    wait_until_serving(mirror)
    assert status(mirror)["pause"] is None


def test_a_forced_takeover_states_what_is_lost_before_and_after(
    command_line: CommandLine, mirrors: Mirrors
) -> None:
    main, mirror = mirrors.pair()
    command_line.about(main)
    assert command_line("pub", "quotes", "{{n}}", "-n", "3", "-H", "persistent=false").code == OK
    poll(lambda: status(mirror)["would_be_lost"]["non_persistent"] == 3)
    at_active = command_line("mirror", "takeover", "--reason", "it hangs", "--yes")
    assert (at_active.code, "this broker is active" in at_active.err) == (CONFLICT, True)

    command_line.about(mirror)
    assert command_line("mirror", "takeover", "--yes").code == USAGE, "without a reason"
    order = ("mirror", "takeover", "--reason", "it hangs")
    what = "lost by a forced takeover: 0 persistent and about 3 non-persistent messages"
    preview = command_line(*order, "--dry-run")
    assert (preview.code, what in preview.err) == (OK, True)
    unconfirmed = command_line(*order)
    assert (unconfirmed.code, what in unconfirmed.err) == (USAGE, True)
    assert serves(main)

    done = command_line(*order, "--yes")
    assert (done.code, what in done.err) == (OK, True)
    wait_until_serving(mirror)
    poll(lambda: not main.running)
    (takeover, _) = command_line("mirror", "status", "-o", "json").json()["takeovers"]
    assert (takeover["cause"], takeover["reason"], takeover["non_persistent_lost"]) == (
        "forced",
        "it hangs",
        3,
    )
    text = command_line("mirror", "status").out
    assert f"took over from 127.0.0.1:{main.port}, by force, as an operator ordered" in text
    assert "lost were no persistent messages, and 3 non-persistent ones" in text


def test_a_broker_without_a_shared_journal_has_no_mirrors(mom: CommandLine) -> None:
    done = mom("mirror", "status")
    assert (done.code, "its journal is not shared" in done.err) == (NOT_FOUND, True)


def test_a_token_is_made_where_a_broker_serves_and_nowhere_else(
    command_line: CommandLine, mirrors: Mirrors
) -> None:
    main, mirror = mirrors.pair()
    there = ("token", "create", "there", "--data", str(main.data))
    here = ("token", "create", "here", "--data", str(mirror.data))
    made = command_line(*there)
    assert made.code == OK, made.err
    on_standby = command_line(*here)
    assert (on_standby.code, on_standby.out) == (CONFLICT, "")
    assert "its configuration is replaced by that of the active broker" in on_standby.err
    revoked = command_line("token", "revoke", "there", "--data", str(mirror.data))
    assert revoked.code == CONFLICT
    assert command_line("token", "ls", "--data", str(mirror.data)).code == OK
    main.kill()
    wait_until_serving(mirror)
    assert command_line(*here).code == OK
    stopped = command_line("token", "create", "late", "--data", str(main.data))
    assert (stopped.code, stopped.out) == (CONFLICT, "")
    password = subprocess.run(
        [sys.executable, "manage.py", "changepassword", "admin"],
        cwd=ROOT,
        env=main.environment,
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert password.returncode != 0
    assert "make the change there, or while this broker serves" in password.stderr


def test_a_broker_with_a_journal_of_its_own_again_has_its_own_configuration(
    command_line: CommandLine, mirrors: Mirrors
) -> None:
    main = mirrors.make()
    main.start()
    main.terminate()
    create = ("token", "create", "mine", "--data", str(main.data))
    assert command_line(*create).code == CONFLICT
    alone = BrokerProcess(main.data)
    alone.start()
    alone.terminate()
    made = command_line(*create)
    assert (made.code, len(made.out.splitlines())) == (OK, 1), made.out
