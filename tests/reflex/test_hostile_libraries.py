"""Libraries that fail, hang, crash and misbehave: each ends its own process, and nothing else."""

from __future__ import annotations

import logging
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from broker_app.base import deadline
from broker_app.reflex.declaration import ACCEPT, ARRIVAL, Declaration
from broker_app.reflex.libraries import library_client, output_log, process
from broker_app.reflex.libraries.breaker import OPEN_S
from tests.reflex.filtering_broker import Client, FilteringBroker, in_each_turn, reflex
from tests.support.awaiting import until
from tests.support.patience import patient

HOSTILE = """
import os, signal, socket, subprocess, sys, threading, time

def loop(message):
    while True:
        pass

def sleep(message):
    time.sleep(1000)

def ignore_signals(message):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(1000)

def leave(message):
    os._exit(7)

def exit(message):
    sys.exit(3)

def kill_itself(message):
    os.kill(os.getpid(), signal.SIGKILL)

def _connection():
    for number in range(3, 1024):
        try:
            return socket.socket(fileno=os.dup(number))
        except OSError:
            pass

def send_garbage(message):
    _connection().sendall(b"\\x00\\x00\\x00\\x05hello")
    time.sleep(1000)

def send_a_long_frame(message):
    _connection().sendall(b"\\xff\\xff\\xff\\xff")
    time.sleep(1000)

def flood(message):
    from broker_app.reflex.libraries import wire
    connection = _connection()
    while True:
        connection.sendall(wire.frame(wire.CallResult(12345, 0)))

def close_all(message):
    os.closerange(0, 64)
    time.sleep(1000)

def eat_memory(message):
    eaten = []
    while True:
        eaten.append(bytearray(10_000_000))

def fork_many(message):
    for _ in range(20):
        if os.fork() == 0:
            while True:
                time.sleep(0.1)
    time.sleep(1000)

def recurse(message):
    return recurse(message)

def raise_error(message):
    raise ValueError("secret detail")

def return_text(message):
    return "yes"

def return_a_wrong_message(message):
    from broker_app.reflex.api import NewMessage, accept
    return accept(messages=[NewMessage("/queue/x", "text")])

def return_a_wrong_header(message):
    from broker_app.reflex.api import accept
    return accept(headers={"destination": "/queue/other"})

def print_much(message):
    for number in range(10_000):
        print("line", number, "\\x1b[31m")

def count_environment(message):
    print("environment", sorted(os.environ))

def fine(message):
    return 1
"""

#: failures of the process, and a part of the reason that operators see
FAULTS = {
    "loop": "did not return within 0.3 s",
    "sleep": "did not return within 0.3 s",
    "ignore_signals": "did not return within 0.3 s",
    "leave": "exited with status 7",
    "exit": "exited with status 3",
    "kill_itself": "ended by signal SIGKILL",
    "send_garbage": "sent what it must not",
    "send_a_long_frame": "sent what it must not: a frame of 4294967295 bytes",
    "flood": "sent what it must not: a result that nothing waits for",
    "close_all": "closed its connection",
    "fork_many": "did not return within 0.3 s",
}


@pytest.fixture
def hostile(filtering: FilteringBroker) -> FilteringBroker:
    filtering.library("hostile", HOSTILE)
    return filtering


def hostile_reflex(function: str, **facts: Any) -> Declaration:
    """A function that has as long as it may need on a busy machine, or too little if it is not to return."""
    limit_s = 0.3 if "did not return" in FAULTS[function] else 20.0
    return reflex(ARRIVAL, function, library="hostile", service="stock", time_limit_s=limit_s, **facts)


@pytest.mark.parametrize("function", FAULTS)
async def test_a_process_that_misbehaves_is_replaced_and_only_its_message_refused(
    hostile: FilteringBroker, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if function != "close_all":  # on a busy machine, a process needs longer to end
        monkeypatch.setattr(process, "_EXIT_S", patient(5))
    hostile.library("honest", "def fine(message):\n    return 1\n")
    hostile.declare(
        hostile_reflex(function, event="bad"),
        reflex(ARRIVAL, "fine", library="hostile", name="fine-1"),
        reflex(ARRIVAL, "fine", library="honest", name="fine-2"),
    )
    client, other = Client(hostile), Client(hostile)
    client.publish("1")
    client.publish("2", type="bad")
    client.publish("3")
    other.publish("4", to="/queue/other")
    await hostile.settled()
    assert client.receipts == [b"1", b"3"]
    assert other.receipts == [b"4"]
    ((receipt, refusal),) = client.refusals
    assert (receipt, refusal.code) == (b"2", "filtered")
    assert refusal.facts["reason"] == "it failed; the log of the broker has the details"
    report = {row["name"]: row for row in hostile.reflexes.report()}
    assert FAULTS[function] in report[function]["last_failure"]
    assert report["fine-1"]["failures"] == report["fine-2"]["failures"] == 0
    library = {one["name"]: one for one in hostile.reflexes.libraries()}["hostile"]
    assert (library["starts"], library["state"], library["failures_in_row"]) == (2, "running", 0)


@pytest.mark.parametrize(
    ("function", "failure"),
    [
        ("recurse", "RecursionError"),
        ("raise_error", "ValueError: secret detail"),
        ("return_text", "TypeError: it returned 'yes'; it must return a verdict, True, False, 1, 0 or None"),
        ("return_a_wrong_message", "the destination must be a text, the body bytes"),
        ("return_a_wrong_header", "header destination cannot be changed"),
        ("eat_memory", "MemoryError"),
        ("absent", "LookupError: library hostile has no function absent; it has close_all, "),
    ],
)
async def test_a_function_that_fails_leaves_its_process_alone(
    hostile: FilteringBroker, function: str, failure: str
) -> None:
    hostile.declare(reflex(ARRIVAL, function, library="hostile", time_limit_s=20.0))
    client = Client(hostile)
    client.publish("1")
    await hostile.settled()
    assert client.refused == [(b"1", "filtered", function)]
    assert failure in hostile.reflexes.report()[0]["last_failure"]
    assert "secret" not in str(client.refusals)
    assert hostile.reflexes.libraries()[0]["starts"] == 1


async def test_a_function_that_may_fail_lets_pass(hostile: FilteringBroker) -> None:
    hostile.declare(hostile_reflex("leave", on_failure=ACCEPT))
    client = Client(hostile)
    client.publish("1")
    await hostile.settled()
    assert client.receipts == [b"1"]


async def test_children_of_a_process_are_killed_with_it(hostile: FilteringBroker) -> None:
    hostile.declare(hostile_reflex("fork_many"))
    await until(lambda: hostile.reflexes.libraries()[0]["pid"])
    group = hostile.reflexes.libraries()[0]["pid"]
    assert group is not None
    client = Client(hostile)
    client.publish("1")
    await hostile.settled()

    def is_gone() -> bool:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        return all(_is_zombie(pid) for pid in _members(group))

    await until(is_gone)


def _members(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group:
                found.append(int(entry.name))
    return found


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def test_after_three_failures_in_a_row_the_library_is_not_called_for_a_while(
    hostile: FilteringBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_app.reflex.libraries.breaker.OPEN_S", 5.0)
    hostile.declare(
        hostile_reflex("leave", event="bad"),
        reflex(ARRIVAL, "fine", library="hostile"),
    )
    client = Client(hostile)
    client.publish(*"abcdefgh", type="bad")
    await hostile.settled()
    client.publish("i")
    await hostile.settled()
    assert [receipt for receipt, _, _ in client.refused] == [b"%c" % letter for letter in b"abcdefghi"]
    (library,) = hostile.reflexes.libraries()
    assert (library["starts"], library["state"]) == (3, "failed")
    assert "exited with status 7" in (library["error"] or "")
    await until(lambda: hostile.reflexes.libraries()[0]["state"] != "failed")
    assert [row["health"] for row in hostile.reflexes.report()] == ["failing", "degraded"]
    client.publish("j")
    await hostile.settled()
    assert [row["health"] for row in hostile.reflexes.report()] == ["failing", "running"]
    assert client.receipts == [b"j"]
    assert [(event.name, event.event, event.code) for event in hostile.events.all()] == [
        ("hostile", "recovered", ""),
        ("fine", "refused", "REFLEX_FAILED"),
        ("hostile", "failed", "REFLEX_FAILED"),
        ("leave", "refused", "REFLEX_FAILED"),
    ]


async def test_a_library_that_is_missing_refuses_until_it_is_there(hostile: FilteringBroker) -> None:
    declaration = reflex(ARRIVAL, "audit", library="absent")
    hostile.declare(declaration)
    client = Client(hostile)
    client.publish("1", "2")
    await hostile.settled()
    assert [code for _, code, _ in client.refused] == ["filtered", "filtered"]
    (row,) = hostile.reflexes.report()
    assert "there is no library absent in" in (row["error"] or "")
    assert row["health"] == "failing"
    hostile.library("absent", "def audit(message):\n    return 1\n")
    hostile.declare()
    hostile.declare(declaration)
    client.publish("3")
    await hostile.settled()
    assert client.receipts == [b"3"]


async def test_a_library_that_cannot_be_imported_is_reported(hostile: FilteringBroker) -> None:
    hostile.library("broken", "import nothing_of_this_name\n")
    hostile.library("endless", "while True: pass\n")
    hostile.declare(reflex(ARRIVAL, "f", library="broken"))
    client = Client(hostile)
    client.publish("1")
    await hostile.settled()
    assert "ModuleNotFoundError" in (hostile.reflexes.report()[0]["error"] or "")


async def test_a_library_that_is_not_loaded_in_time_is_killed(
    hostile: FilteringBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_client, "START_S", 0.3)
    hostile.library("endless", "while True: pass\n")
    hostile.declare(reflex(ARRIVAL, "f", library="endless"))
    client = Client(hostile)
    client.publish("1", "2", "3", "4")
    await hostile.settled()
    assert len(client.refused) == 4
    assert "was not loaded within 0.3 s" in (hostile.reflexes.libraries()[0]["error"] or "")


async def test_output_is_logged_labelled_and_bounded(
    hostile: FilteringBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="broker_app.reflex.libraries.output_log")
    hostile.declare(reflex(ARRIVAL, "print_much", library="hostile", time_limit_s=20.0))
    client = Client(hostile)
    client.publish("1")
    await until(lambda: "more such lines" in caplog.text)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "library hostile: line 0 ?[31m"
    assert len(lines) < output_log.BURST + 20
    await hostile.settled()


async def test_a_trace_back_is_logged_whole_once_and_then_its_error_alone(
    filtering: FilteringBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Each message of a queue with such a function had ten lines: 10,000 in 25 minutes."""
    caplog.set_level(logging.INFO, logger="broker_app.reflex.libraries.output_log")
    filtering.library("wrong", "def f(message):\n    raise ValueError(message.body.decode())\n")
    filtering.declare(reflex(ARRIVAL, "f", library="wrong"))
    client = Client(filtering)
    for body in ("1", "2", "3"):
        client.publish(body)
    await until(lambda: "ValueError: 3 (its trace-back" in caplog.text)
    lines = [line for line in caplog.messages if line.startswith("library wrong")]
    assert lines[0] == "library wrong: Traceback (most recent call last):"
    assert lines[-3:] == [
        "library wrong: ValueError: 1",
        "library wrong: ValueError: 2 (its trace-back was logged before)",
        "library wrong: ValueError: 3 (its trace-back was logged before)",
    ]


async def test_a_process_has_no_secrets_of_the_broker(
    filtering: FilteringBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MOM_ADMIN_PASSWORD", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    caplog.set_level(logging.INFO, logger="broker_app.reflex.libraries.output_log")
    filtering.library("hostile", HOSTILE)
    filtering.declare(reflex(ARRIVAL, "count_environment", library="hostile"))
    client = Client(filtering)
    client.publish("1")
    await until(lambda: "environment" in caplog.text)
    assert "PATH" in caplog.text
    assert "MOM_ADMIN_PASSWORD" not in caplog.text
    assert "AWS_SECRET_ACCESS_KEY" not in caplog.text


async def test_a_process_gives_way_to_others_and_is_bounded(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(ARRIVAL, "audit"))
    await until(lambda: filtering.reflexes.libraries()[0]["state"] == "running")
    pid = filtering.reflexes.libraries()[0]["pid"]
    assert pid is not None
    assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0) + 10
    assert os.sched_getscheduler(pid) == os.SCHED_BATCH
    assert _niceness_of_session(pid) in (None, 10)
    assert _memory_limit(pid) == [str(512 * 1024 * 1024)] * 2
    assert _open_files(pid) == ["/dev/null", "pipe", "pipe", "socket"]


async def test_a_library_is_loaded_with_the_priority_of_the_broker_and_gives_way_then(
    filtering: FilteringBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="broker_app.reflex.libraries.output_log")
    content = "import os\nprint('niceness', os.nice(0), flush=True)\ndef pass_on(message):\n    return 1\n"
    filtering.library("loading", content)
    filtering.declare(reflex(ARRIVAL, "pass_on", library="loading"))
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    await until(lambda: f"library loading: niceness {ours}" in caplog.messages)
    await until(lambda: _more_niceness(filtering) == 10)


async def test_a_process_gives_way_even_more_after_failures_until_an_operator_restarts_it(
    hostile: FilteringBroker,
) -> None:
    hostile.declare(hostile_reflex("leave", event="bad"))
    client = Client(hostile)
    for kind in ("bad", "good"):
        client.publish("1", type=kind)
        await hostile.settled()
        await until(lambda: hostile.reflexes.libraries()[0]["state"] == "running")
        await until(lambda: _more_niceness(hostile) == 15)
    hostile.reflexes.restart("hostile")
    await until(lambda: _more_niceness(hostile) == 10)


def _more_niceness(broker: FilteringBroker) -> int | None:
    """The niceness of the process of the library, beyond the broker's; None without one."""
    pid = broker.reflexes.libraries()[0]["pid"]
    try:
        return os.getpriority(os.PRIO_PROCESS, pid) - os.getpriority(os.PRIO_PROCESS, 0) if pid else None
    except ProcessLookupError:
        return None


def _niceness_of_session(pid: int) -> int | None:
    """None where the kernel does not share out processors by session."""
    try:
        return int(Path(f"/proc/{pid}/autogroup").read_text().split()[-1])
    except FileNotFoundError:
        return None


def _memory_limit(pid: int) -> list[str]:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line for line in lines if line.startswith("Max address space")).split()[3:5]


def _open_files(pid: int) -> list[str]:
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    return sorted(link.partition(":")[0] for link in links)


async def test_a_process_that_ended_while_it_was_idle_is_replaced(filtering: FilteringBroker) -> None:
    filtering.declare(reflex(ARRIVAL, "audit"))
    await until(lambda: filtering.reflexes.libraries()[0]["state"] == "running")
    pid = filtering.reflexes.libraries()[0]["pid"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until(lambda: filtering.reflexes.libraries()[0]["failures_in_row"] == 1)
    client = Client(filtering)
    client.publish("1")
    await filtering.settled()
    assert client.receipts == [b"1"]


async def test_a_library_that_is_restarted_is_loaded_again_and_loses_no_call(
    filtering: FilteringBroker,
) -> None:
    filtering.library("mine", "import time\ndef f(message):\n    time.sleep(0.2)\n    return 0\n")
    filtering.declare(reflex(ARRIVAL, "f", library="mine"))
    client = Client(filtering)
    client.publish("1", "2")
    await until(lambda: filtering.reflexes.libraries()[0]["state"] == "running")
    filtering.library("mine", "def f(message):\n    return 1\n")
    assert filtering.reflexes.restart("mine")
    await filtering.settled()
    assert client.receipts == [b"1", b"2"]
    (library,) = filtering.reflexes.libraries()
    assert (library["starts"], library["failures_in_row"]) == (2, 0)


async def test_a_stopped_broker_leaves_no_processes(filtering: FilteringBroker) -> None:
    filtering.library("stubborn", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n")
    filtering.declare(reflex(ARRIVAL, "audit"), reflex(ARRIVAL, "f", library="stubborn"))
    await until(lambda: all(one["state"] == "running" for one in filtering.reflexes.libraries()))
    pids = [one["pid"] for one in filtering.reflexes.libraries() if one["pid"] is not None]
    began = time.monotonic()
    await filtering.reflexes.stop()
    assert time.monotonic() - began < process.STOP_S
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_many_calls_that_fail_at_once_are_finished_in_several_turns(
    filtering: FilteringBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    filtering.library("broken", "raise RuntimeError('no')")
    filtering.declare(reflex(ARRIVAL, "f", library="broken"))
    client = Client(filtering)
    client.publish(*map(str, range(500)))
    monkeypatch.setattr(deadline, "TURN_S", 0.0)  # a turn ends as soon as it may
    failed = await in_each_turn(lambda: filtering.reflexes.report()[0]["failures"], 500)
    assert max(failed) < 20
    await filtering.settled()
    assert [receipt for receipt, _, _ in client.refused] == [b"%d" % number for number in range(500)]


def test_the_times_that_the_documentation_states() -> None:
    assert (library_client.START_S, OPEN_S) == (10.0, 10.0)
