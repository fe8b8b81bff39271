"""A process killed at any moment, with copying, snapshots and syncing under way, loses nothing confirmed."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from broker_app.journal.tools.inspect import verify
from tests.support.forked import ROOT, Forked

from .killed import body_of, replay
from .stage import quick_journal, read_now

pytestmark = pytest.mark.process

LIVES = 12


def test_nothing_confirmed_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    chance = random.Random(random.random())
    published: set[int] = set()
    freed: set[int] = set()
    for _ in range(LIVES):
        lines = run_and_kill(tmp_path, chance.randrange(1, 1500))
        published |= numbers(lines, "p")
        freed |= numbers(lines, "f")

        journal = quick_journal(tmp_path)
        wanted = replay(journal)
        assert not wanted & freed, "what was freed must not come back"
        missing = published - freed - wanted
        assert missing <= numbers(lines, "t"), "only what the last batch was freeing may be gone"
        freed |= missing
        published |= wanted
        positions = sorted(wanted)
        assert read_now(journal, positions) == [body_of(position) for position in positions]
        journal.close()
    assert not [finding for finding in verify(tmp_path) if finding.damage]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2_000_000


def numbers(lines: list[str], letter: str) -> set[int]:
    return {int(line[2:]) for line in lines if line.startswith(letter)}


def run_and_kill(directory: Path, lines: int) -> list[str]:
    """Let a process live until it has confirmed so many lines; all whole lines that it printed."""
    command = [sys.executable, "-m", "tests.journal.killed", str(directory)]
    with Forked(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        seen += process.stdout.readlines()
    return [line.strip() for line in seen if line.endswith("\n")]
