"""How long tests take: a plugin of pytest that writes it down, and a program that compares runs.

    pytest -p tests.support.run_times --times .ci/output
    python -m tests.support.run_times .ci/output [--since COMMIT]

The directory then has `longest.txt` with the 300 longest tests, `processor.txt` with the processor time of
each module and of the processes that it starts, and `times-COMMIT.json` with both. A test whose call takes
more than `LIMIT_S` and that has no mark `slow` fails the run, if it takes as long when it runs again alone:
so nothing depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple, TypedDict
from xml.etree import ElementTree

import pytest

from tests.support.processor_times import OUTPUT, ProcessorTimes
from tests.support.retries import alone, name

LIMIT_S = 20.0
LONGEST = 300
#: so many of the tests above the limit, the longest ones, run again alone
MOST = 3


class _Minutes(TypedDict):
    minutes: float
    seconds: dict[str, float]


class Figures(_Minutes, total=False):
    """The file of a run: seconds by test, and those of processors by module, which older files lack."""

    processor: dict[str, float]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", type=Path, metavar="DIRECTORY", help="write there how long the tests take")


def pytest_configure(config: pytest.Config) -> None:
    directory: Path | None = config.option.times
    if directory is None:
        return
    processor = ProcessorTimes(config)
    if not getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(processor)
    if not hasattr(config, "workerinput"):
        directory.mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(Times(config.rootpath, directory, processor.seconds))


class Times:
    """Seconds of each test: what it needs, its call, and what follows it. `processor` has those by module."""

    def __init__(self, root: Path, directory: Path, processor: defaultdict[str, float]) -> None:
        self._root = root
        self._processor = processor
        self._directory = directory
        self._began = time.monotonic()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        #: calls of tests without the mark `slow` that took too long
        self._long: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = name(report.nodeid)
        self._seconds[test] += report.duration
        if report.when != "call" or not report.passed or "slow" in report.keywords:
            return
        if report.duration > LIMIT_S:
            self._long[test] = report.duration

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Adds what a process of pytest-xdist has measured."""
        for module, seconds in getattr(node, "workeroutput", {}).get(OUTPUT, {}).items():
            self._processor[module] += seconds

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        wall = time.monotonic() - self._began
        seconds = {test: round(spent, 3) for test, spent in self._seconds.items()}
        processor = {module: round(spent, 2) for module, spent in self._processor.items()}
        figures = {"minutes": round(wall / 60, 2), "seconds": seconds, "processor": processor}
        self._file("json", f"times-{commit(self._root)}").write_text(json.dumps(figures), encoding="utf-8")
        self._file("txt", "longest").write_text(_longest_first(self._seconds, LONGEST), encoding="utf-8")
        self._file("txt", "processor").write_text(_longest_first(processor), encoding="utf-8")
        doubtful = sorted(self._long.items(), key=lambda item: -item[1])[:MOST]
        self._long = {test: seconds for test, seconds in doubtful if self._still_long(test)}
        if self._long and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _file(self, kind: str, stem: str) -> Path:
        return self._directory / f"{stem}.{kind}"

    def _still_long(self, test: str) -> bool:
        """Whether it takes as long alone; one that fails then is not the subject here."""
        report = self._file("xml", "alone").absolute()
        alone(self._root, test, "-o", "junit_duration_report=call", "--junitxml", str(report))
        cases = ElementTree.parse(report).iter("testcase")
        return any(float(case.get("time", 0)) > LIMIT_S for case in cases)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._long:
            terminalreporter.section("tests that take too long", red=True)
        for test, seconds in self._long.items():
            terminalreporter.write_line(
                f"{test} takes {seconds:.0f} s, more than {LIMIT_S:.0f}: make it shorter, or mark it `slow`"
            )


def _longest_first(seconds: dict[str, float], most: int | None = None) -> str:
    ordered = sorted(seconds.items(), key=lambda item: -item[1])[:most]
    return "".join(f"{spent:8.2f} s  {name}\n" for name, spent in ordered)


def commit(root: Path) -> str:
    """The abbreviated commit of a checkout; `none` in a copy without git."""
    command = ["git", "rev-parse", "--short=8", "HEAD"]
    shown = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    return shown.stdout.strip() or "none"


class Spent(NamedTuple):
    """The number of tests of a directory, their seconds, and those of processors."""

    tests: int = 0
    seconds: float = 0.0
    processor: float = 0.0


def by_directory(figures: Figures) -> dict[str, Spent]:
    """The figures of each directory of `tests`."""
    found: defaultdict[str, Spent] = defaultdict(Spent)
    for test, spent in figures["seconds"].items():
        had = found[_directory(test)]
        found[_directory(test)] = had._replace(tests=had.tests + 1, seconds=had.seconds + spent)
    for module, spent in figures.get("processor", {}).items():
        had = found[_directory(module)]
        found[_directory(module)] = had._replace(processor=had.processor + spent)
    return found


def _directory(test: str) -> str:
    parts = test.partition("::")[0].split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def table(now: Figures, before: Figures | None) -> str:
    """Lines of directories, those first that compute longest; with `before`, their growth since then."""
    rows = by_directory(now)
    former = by_directory(before) if before else {}
    rows = {"all": _sum(rows), **rows}
    former = {"all": _sum(former), **former}
    growth = f"{'before':>11}{'growth':>9}" if before else ""
    lines = [f"{'directory':24}{'tests':>8}{'seconds':>10}{'processor':>11}{growth}"]
    for directory in sorted(rows.keys() | former.keys(), key=lambda one: _order(rows.get(one, Spent()))):
        spent = rows.get(directory, Spent())
        line = f"{directory:24}{spent.tests:8,}{spent.seconds:10,.1f}{spent.processor:11,.1f}"
        if before:
            was = former.get(directory, Spent()).processor
            line += f"{was:11,.1f}{spent.processor - was:+9,.1f}"
        lines.append(line)
    return "\n".join(lines)


def _sum(rows: dict[str, Spent]) -> Spent:
    return Spent(*map(sum, zip(*rows.values(), strict=True))) if rows else Spent()


def _order(spent: Spent) -> tuple[float, float]:
    return -spent.processor, -spent.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of the tests by directory.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--since", metavar="COMMIT", help="compare with the run of this commit")
    arguments = parser.parse_args()
    files = sorted(arguments.directory.glob("times-*.json"), key=lambda file: file.stat().st_mtime)
    if not files:
        sys.exit(f"{arguments.directory} has no figures yet: run `make test` first")
    now = json.loads(files[-1].read_text(encoding="utf-8"))
    before = None
    if arguments.since:
        given = subprocess.run(
            ["git", "rev-parse", "--short=8", arguments.since], check=False, capture_output=True, text=True
        ).stdout.strip()
        file = arguments.directory / f"times-{given or arguments.since}.json"
        if not file.exists():
            sys.exit(f"{file} is not there: check that commit out and run `make test` with the same OUTPUT")
        before = json.loads(file.read_text(encoding="utf-8"))
    print(table(now, before))
    print(f"{files[-1].stem}: {now['minutes']} minutes" + (f", before {before['minutes']}" if before else ""))


if __name__ == "__main__":
    main()
