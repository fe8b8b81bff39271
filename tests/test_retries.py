"""Whole runs and chance: what happens to tests that fail once, and to those that take too long."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: fails as often as the file says
FLAKY = """
from pathlib import Path

def test_flaky{number}() -> None:
    left = Path(__file__).with_suffix(".left{number}")
    failures = int(left.read_text())
    left.write_text(str(failures - 1))
    assert failures <= 0, "by chance"
"""


class Checkout:
    """A repository with tests, and runs of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "tests").mkdir()
        (root / "pytest.ini").write_text("[pytest]\n")
        self.git("init", "-q")

    def git(self, *words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *words], cwd=self.root, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", ".")
        self.git("commit", "-q", "--allow-empty", "-m", "state")

    def flaky(self, *failures: int) -> None:
        """Tests that fail so many times each."""
        text = "".join(FLAKY.format(number=number) for number in range(len(failures)))
        (self.root / "tests/test_it.py").write_text(text)
        for number, times in enumerate(failures):
            (self.root / f"tests/test_it.left{number}").write_text(str(times))

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-p", "tests.support.retries", *options, "tests"]
        return subprocess.run(
            command,
            cwd=self.root,
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": f"{ROOT}",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # most of their time is that of plugins
                "PYTEST_PLUGINS": "xdist.plugin",
            },
            check=False,
            capture_output=True,
            text=True,
        )

    @property
    def unstable(self) -> str:
        file = self.root / "tests/unstable.txt"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    made.commit()
    return made


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_failure_by_chance_passes_and_is_listed_with_its_trace(checkout: Checkout, processes: str) -> None:
    checkout.flaky(1, 0)
    ended = checkout.run("-n", processes)
    assert ended.returncode == 0, ended.stdout
    said = "unstable: tests/test_it.py::test_flaky0, first failure: call: AssertionError: by chance"
    assert said in ended.stdout
    assert "assert 1 <= 0" in ended.stdout, "the first trace is shown whole"
    assert "tests/test_it.py::test_flaky0  # commit " in checkout.unstable
    assert "test_flaky1" not in checkout.unstable


@pytest.mark.parametrize("failures", [2, 3])
def test_a_test_that_fails_again_alone_fails_the_run(checkout: Checkout, failures: int) -> None:
    checkout.flaky(failures)
    ended = checkout.run()
    assert (ended.returncode, checkout.unstable) == (1, ""), ended.stdout


def test_more_than_three_failures_are_no_chance(checkout: Checkout) -> None:
    checkout.flaky(1, 1, 1, 1)
    ended = checkout.run()
    assert (ended.returncode, checkout.unstable) == (1, ""), ended.stdout
    assert "4 tests failed: more than 3" in ended.stdout


def test_a_test_that_is_listed_by_a_commit_may_not_be_unstable_again(checkout: Checkout) -> None:
    checkout.flaky(1)
    assert checkout.run().returncode == 0
    checkout.flaky(1)
    assert checkout.run().returncode == 0, "the list is not committed yet: the commit is the same"
    checkout.commit()
    checkout.flaky(1)
    ended = checkout.run()
    assert ended.returncode == 1, ended.stdout
    assert "failed the run: it is in tests/unstable.txt since commit " in ended.stdout


def test_a_test_that_takes_too_long_without_its_mark_fails_the_run(checkout: Checkout) -> None:
    waits = "import time\nfrom tests.support import run_times\n\n"
    waits += "import pytest\n\ndef test_long(): time.sleep(0.3)\n"
    waits += "@pytest.mark.slow\ndef test_marked(): time.sleep(0.3)\n"
    (checkout.root / "tests/test_it.py").write_text(waits)
    limit = "from tests.support import run_times\nrun_times.LIMIT_S = 0.2\n"
    (checkout.root / "conftest.py").write_text(limit)
    (checkout.root / "pytest.ini").write_text("[pytest]\nmarkers = slow: takes long\n")
    ended = checkout.run("-p", "tests.support.run_times", "--times", "figures")
    assert ended.returncode == 1, ended.stdout
    assert "tests/test_it.py::test_long takes 0 s" in ended.stdout
    assert "test_marked takes" not in ended.stdout
    [figures] = (checkout.root / "figures").glob("times-*.json")
    found = json.loads(figures.read_text())
    assert found["seconds"].keys() == {"tests/test_it.py::test_long", "tests/test_it.py::test_marked"}
    assert "test_long" in (checkout.root / "figures/longest.txt").read_text()
    assert found["processor"].keys() == {"tests/test_it.py"}
    assert "tests/test_it.py" in (checkout.root / "figures/processor.txt").read_text()


def test_the_growth_since_a_commit_is_printed_by_directory(tmp_path: Path) -> None:
    for commit, seconds in (("aaaaaaaa", 1.0), ("bbbbbbbb", 2.5)):
        times = {"tests/core/test_a.py::test_b": seconds, "tests/test_c.py::test_d": 1.0}
        processor = {"tests/core/test_a.py": 2 * seconds, "tests/test_c.py": 1.0}
        figures = {"minutes": 1, "seconds": times, "processor": processor}
        (tmp_path / f"times-{commit}.json").write_text(json.dumps(figures))
    command = [sys.executable, "-m", "tests.support.run_times", str(tmp_path), "--since", "aaaaaaaa"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines()}
    assert rows["tests/core"] == ["1", "2.5", "5.0", "2.0", "+3.0"]
    assert rows["tests"] == ["1", "1.0", "1.0", "1.0", "+0.0"]
    assert rows["all"] == ["2", "3.5", "6.0", "3.0", "+3.0"]
