"""A plugin of pytest for whole runs: a failure by chance is reported, and does not throw the run away.

A test that fails runs again at the end, alone, twice. If it passes both times, the run passes, but the test
is called unstable: in a block at the end of the output, and in `unstable.txt`, which is to be committed. A
test that is already there, from an earlier commit, fails the run when it is unstable again. So does a run
with more than `MOST` failures, which are no chance. `pytest -p tests.support.retries`
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

import pytest

#: so many failures are run again; more fail the run
MOST = 3
TIMES = 2
#: relative to the root of the checkout
FILE = Path("tests/unstable.txt")
_HEAD = """\
# Tests that failed once and passed when they ran again, each with the commit in which that was seen.
# Find the cause, mend it, and remove the line. One that is unstable again while it is here fails the run.
"""


class Failure(NamedTuple):
    """A test's first failure: in which phase, and the last line of its report."""

    test: str
    cause: str


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Retries(config.rootpath))


class Retries:
    """The failures of a run, and what became of them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._failures: dict[str, Failure] = {}
        self._unstable: list[Failure] = []
        self._known: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            test = name(report.nodeid)
            self._failures.setdefault(test, Failure(test, _cause(report)))

    @pytest.hookimpl(trylast=True)  # the processes of the run have ended then
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.TESTS_FAILED or not 0 < len(self._failures) <= MOST:
            return
        print(f"\n\nrunning {len(self._failures)} that failed again, alone", flush=True)
        lasting = [failure for failure in self._failures.values() if not self._passes(failure.test)]
        self._unstable = [failure for failure in self._failures.values() if failure not in lasting]
        self._known = committed(self._root)
        if not lasting and not any(failure.test in self._known for failure in self._unstable):
            session.exitstatus = pytest.ExitCode.OK
        add(self._root, (failure.test for failure in self._unstable))

    def _passes(self, test: str) -> bool:
        return all(alone(self._root, test) for _ in range(TIMES))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._failures) > MOST:
            terminalreporter.write_line(
                f"{len(self._failures)} tests failed: more than {MOST} are no chance, none was run again"
            )
        if not self._unstable:
            return
        terminalreporter.section("unstable tests", yellow=True)
        for failure in self._unstable:
            terminalreporter.write_line(f"unstable: {failure.test}, first failure: {failure.cause}")
            if failure.test in self._known:
                terminalreporter.write_line(
                    f"  failed the run: it is in {FILE} since {self._known[failure.test]}; mend it"
                )
        terminalreporter.write_line(f"Each passed {TIMES} times alone. Commit {FILE}, which has their names.")


def name(nodeid: str) -> str:
    """The address of a test without the group that pytest-xdist appends."""
    return nodeid.rsplit("@", 1)[0] if nodeid.rfind("@") > nodeid.rfind("]") else nodeid


def alone(root: Path, test: str, *options: str) -> bool:
    """Run one test in a process of its own; returns whether it passed."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *options]
    # The address has the parameters of the test, which may be longer than the kernel lets an argument be.
    with NamedTemporaryFile("w", encoding="utf-8") as address:
        address.write(test)
        address.flush()
        return subprocess.run([*command, f"@{address.name}"], cwd=root, check=False).returncode == 0


def committed(root: Path) -> dict[str, str]:
    """The tests of the last commit's list, each with the rest of its line; without git, of the file's."""
    shown = subprocess.run(
        ["git", "show", f"HEAD:./{FILE}"], cwd=root, check=False, capture_output=True, text=True
    )
    if shown.returncode == 0:
        return _parse(shown.stdout)
    inside = subprocess.run(["git", "rev-parse"], cwd=root, check=False, capture_output=True)
    return {} if inside.returncode == 0 else _read(root)


def add(root: Path, tests: Iterable[str]) -> None:
    """Write tests that the list does not have yet."""
    listed = _read(root)
    new = [test for test in tests if test not in listed]
    if new:
        command = ["git", "log", "-1", "--format=commit %h of %cs"]
        described = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
        seen = described.stdout.strip() or "a copy without git"
        lines = sorted(f"{test}  # {when}\n" for test, when in {**dict.fromkeys(new, seen), **listed}.items())
        (root / FILE).write_text(_HEAD + "".join(lines), encoding="utf-8")


def _read(root: Path) -> dict[str, str]:
    file = root / FILE
    return _parse(file.read_text(encoding="utf-8")) if file.exists() else {}


def _parse(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {test: seen for line in lines for test, _, seen in [line.partition("  # ")]}


def _cause(report: pytest.TestReport) -> str:
    """The phase and the line of a failure that says most."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr or "").strip()
    lines = text.splitlines() or ["no report"]
    return f"{report.when}: {lines[0]}"[:300]
