"""Runs in several processes: one collects the tests, and those that run them are forked from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]

TESTS = """
import os
from pathlib import Path
import pytest

def note(name: str) -> None:
    with Path(__file__).with_name(name).open("a") as file:
        print(os.getpid(), file=file)

note("collected")

@pytest.mark.parametrize("group", [pytest.param(n, marks=pytest.mark.xdist_group(str(n))) for n in range(4)])
def test_it(group: int, tmp_path: Path) -> None:
    print("printed", os.environ["PYTEST_XDIST_WORKER"])
    note("run")
    assert group != 3
"""


def run(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    plugins = ["-p", "no:cacheprovider", "-p", "xdist", "-p", "tests.support.collected"]
    plugins += ["-p", "tests.support.run_times", "--times", "figures"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-n", "2", "--dist", "loadgroup", *options],
        cwd=root,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": f"{ROOT}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # most of their time is that of plugins
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_process_collects_the_tests_that_others_run(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    done = run(tmp_path, "test_it.py")
    assert (done.returncode, "1 failed, 3 passed" in done.stdout) == (1, True), done.stdout + done.stderr
    assert "printed gw" in done.stdout, "what a test prints is in the report of its failure"
    (collected,) = (tmp_path / "collected").read_text().split()
    processes = set((tmp_path / "run").read_text().split())
    assert len(processes) == 2 and collected not in processes
    assert "test_it.py" in (tmp_path / "figures/processor.txt").read_text(), "each process reports its time"


def test_a_module_that_cannot_be_imported_is_an_error_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import no_such_module\n")
    done = run(tmp_path, "test_it.py")
    assert done.returncode not in (0, 5), done.stdout
    assert "No module named 'no_such_module'" in done.stdout


def test_a_command_that_is_wrong_ends_with_its_reason(tmp_path: Path) -> None:
    done = run(tmp_path, "no_such_file.py")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    assert "file or directory not found: no_such_file.py" in done.stderr
