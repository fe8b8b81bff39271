"""Instructions of the interpreter, counted by function; those of the core for a message are bounded."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import instruction_counter
from benchmarks.core import BODY, Silent, decide
from benchmarks.instruction_counter import InstructionCounter
from benchmarks.instructions import CASES, Counts, differences, table
from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.message import Envelope

#: instructions of the core to publish, deliver and settle one message in a turn, and some more
MOST = 1_900
OLD: Counts = {"read": (100.0, 2.0), "write": (50.0, 1.0)}
NEW: Counts = {"read": (90.0, 1.0), "send": (70.0, 1.0)}


def test_a_message_passes_the_core_in_few_instructions() -> None:
    broker, producer, consumer = Broker(), Silent(), Silent()
    envelope = Envelope("/queue/a", b"content-type:text/plain\n")
    decide(broker, c.Subscribe(consumer.peer, "1", "/queue/a", c.INDIVIDUAL, credit=256))

    def turn() -> None:
        """Settle the last message and publish another, as two clients do that wait for each other."""
        tags, consumer.tags = consumer.tags, []
        publish = c.Publish(producer.peer, [(envelope, BODY, b"1")])
        decide(broker, *([c.Settle(consumer.peer, tags)] if tags else []), publish)

    counter, turns = InstructionCounter(), 20
    for _ in range(turns):
        turn()
    counter.begin()
    for _ in range(turns):
        turn()
    counter.end()
    core = sum(
        instructions
        for code, (instructions, _) in counter.counts.items()
        if "/broker_app/core/" in code.co_filename
    )
    assert core / turns < MOST


@pytest.mark.process
def test_a_program_reports_what_it_did_since_the_last_signal(tmp_path: Path) -> None:
    output, program = tmp_path / "counts.json", tmp_path / "program.py"
    program.write_text(
        "import os, signal\n"
        "def work():\n    return 1\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "for _ in range(3): work()\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
    )
    subprocess.run([sys.executable, instruction_counter.__file__, output, program], check=True)
    assert output.read_text() == '[["work", 6, 3]]'


def test_the_table_has_the_sums_of_both_and_their_ratio() -> None:
    text = table([OLD], [NEW], CASES[:1])
    assert "instructions a message | 150 | 160 | 1.067 |" in text
    assert "calls a message | 3 | 2 | 0.667 |" in text


def test_functions_that_differ_are_shown_the_largest_increase_first() -> None:
    assert [line.split() for line in differences(OLD, NEW)] == [
        ["+70.0", "send"],
        ["-10.0", "read"],
        ["-50.0", "write"],
    ]
