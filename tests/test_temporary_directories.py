"""Directories of tests end with their process, or at a later run: only those that are certainly nobody's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support import temporary
from tests.support.broker_process import ROOT

MAKES = """
import sys
from tests.support.temporary import temporary_directory
made = temporary_directory("redis", in_memory=sys.argv[1] == "memory")
with open(f"{made.name}/file", "w") as file:
    file.write("x")
print(made.name, flush=True)
input()
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The temporary directory of this test and its processes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.process
@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_what_a_killed_process_left_is_removed_by_the_next_run_and_not_before(
    folder: Path, kind: str
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", MAKES, kind],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        made = Path(owner.stdout.readline().strip())
        assert made.parent == folder or kind == "memory"
        temporary.sweep()
        assert (made / "file").exists(), "its process runs"
        owner.send_signal(signal.SIGKILL)
    assert made.exists()
    temporary.sweep()
    assert not made.exists()


def test_what_is_not_certainly_left_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = 2**22 + 1  # above the largest number of a process
    elsewhere = folder / "elsewhere"
    names = (f"mom-redis-{os.getpid()}-a", f"mom-redis-{ended}", f"other-redis-{ended}-a", f"mom-1-{ended}-a")
    for name in (*names, "elsewhere"):
        (folder / name).mkdir()
    (folder / f"mom-link-{ended}-a").symlink_to(elsewhere)
    (folder / f"mom-file-{ended}-a").touch()
    before = sorted(folder.iterdir())
    temporary.sweep()
    assert sorted(folder.iterdir()) == before
    (folder / f"mom-redis-{ended}-a").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    temporary.sweep()
    assert (folder / f"mom-redis-{ended}-a").exists(), "it is another user's"
    monkeypatch.undo()


def test_one_run_removes_a_bounded_number(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "_MOST", 2)
    for number in range(3):
        (folder / f"mom-redis-{2**22 + 1}-{number}").mkdir()
    temporary.sweep()
    assert len(list(folder.iterdir())) == 1
