"""Fixtures of all tests: a real broker in a child process, and its log in the report of a failure."""

import os
import random
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.chromium import chromium

__all__ = ["broker", "chromium", "start_broker"]

#: by what a storm can be repeated, in the environment, which every process of a run inherits
SEED = "STORM_SEED"
# How long an example takes depends more on a busy machine than on a strategy.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

_STARTS_PROCESSES = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn")

#: the test that runs now
_running: pytest.Item | None = None


@pytest.fixture(scope="session")
def processes() -> None:
    """A fixture that starts processes requests this, and tests with it get the mark `process`."""


@pytest.fixture(scope="module")
def broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests of a module; each test uses destinations of its own."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data")
    process.start()
    yield process
    process.kill()


@pytest.fixture
def start_broker(processes: None, tmp_path: Path) -> Iterator[StartBroker]:
    """Starts brokers that one test has for itself: `start_broker("--stomp-port", "-1", environment={…})`.

    `data` names their directory; two brokers on one directory, one after the other, share it.
    """
    started: list[BrokerProcess] = []

    def start(*options: str, data: Path | None = None, **given: Any) -> BrokerProcess:
        process = BrokerProcess(data or tmp_path / f"broker{len(started)}", *options, **given)
        started.append(process)
        process.start()
        return process

    yield start
    for process in started:
        process.kill()


def pytest_configure(config: pytest.Config) -> None:
    """Draws the seed of this run's storms, unless it is given, before other processes are started."""
    os.environ.setdefault(SEED, str(random.randrange(10**9)))
    if "not process" in config.option.markexpr:
        sys.addaudithook(_refuse_processes)


def pytest_report_header() -> str:
    return f"storms: again with {SEED}={os.environ[SEED]}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "processes" in getattr(item, "fixturenames", ()):
            item.add_marker("process")
    twice = [address for address, count in Counter(item.nodeid for item in items).items() if count > 1]
    if twice:
        raise pytest.UsageError(f"several tests are called {twice[0]}; only the first of them would run")
    _distribute(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Stops a run whose processes would each make again what their tests should share."""
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError(f"pytest-xdist does not see the group of {item.nodeid}")


def _distribute(items: list[pytest.Item]) -> None:
    """Lets tests that share what is expensive to make run in one process; all others go where there is room.

    Files that start processes come first, those with a browser before all: they take longest, and the short
    tests at the end let all processes of a run end together.
    """
    browser, process = set(), set()
    for item in items:
        if _shares(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{item.path.stem}"))
        if "chromium" in getattr(item, "fixturenames", ()):
            browser.add(item.path)
        if item.get_closest_marker("process"):
            process.add(item.path)
    items.sort(key=lambda item: (item.path not in browser, item.path not in process))


def _shares(item: pytest.Item) -> bool:
    """Returns whether a fixture of these tests, not of a plugin, is made once for the item's module."""
    definitions = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    return any(
        found[-1].scope in ("module", "class") and found[-1].baseid.startswith("tests")
        for found in definitions
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    global _running
    _running = item
    try:
        return (yield)
    finally:
        _running = None


def _refuse_processes(event: str, _: tuple[Any, ...]) -> None:
    if event in _STARTS_PROCESSES and _running is not None:
        pytest.fail("it starts a process: mark it `process`, or let its fixture request `processes`")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Adds the log of each broker that a failed test has used."""
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, BrokerProcess):
                report.sections.append((f"log of the broker in {value.data}", value.log[-10_000:]))
    return report
