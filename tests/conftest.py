"""Fixtures of all tests: a real broker in a child process, and its log in the report of a failure."""

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis.core
import pytest
from hypothesis import HealthCheck, settings
from pytest_django import DjangoDbBlocker

from tests.support import forked, made_once, retries, temporary
from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.chromium import chromium
from tests.support.needed_fixtures import leave_out_others

__all__ = ["broker", "chromium", "start_broker"]

#: seed of all chance, in the environment, which every process of a run inherits; `random` draws one
SEED = "STORM_SEED"
# How long an example takes depends more on a busy machine than on a strategy. Where the variable CI is set,
# Hypothesis would draw the same examples in each run.
settings.register_profile(
    "busy",
    max_examples=1_000 if "SOAK" in os.environ else 30,
    derandomize=False,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
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


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """The test databases are files that are there, and are removed with their directory."""
    return True


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """Copies the test databases, instead of migrating them in each process."""
    from tests.support.site_databases import copy_migrated

    with django_db_blocker.unblock():
        copy_migrated()


#: fixtures, and parameters, of tests that start processes
_PROCESSES = {"processes", "postgres", "redis", "older_postgres", "older_redis"}


def pytest_configure(config: pytest.Config) -> None:
    """Sets the seed of this run's storms before other processes are started."""
    seed = os.environ.get(SEED) or _seed_of_commit()
    os.environ[SEED] = str(random.randrange(10**9)) if seed == "random" else seed
    vars(hypothesis.core)["global_force_seed"] = int(os.environ[SEED])
    if "not process" in config.option.markexpr:
        sys.addaudithook(_refuse_processes)
    elif getattr(config.option, "numprocesses", None):
        temporary.sweep()
        forked.share()
        made_once.share()


def _seed_of_commit() -> str:
    """A seed that differs from commit to commit, so that each draws other storms, and is the same whenever a
    commit is tested again."""
    git = ["git", "rev-parse", "--short=8", "HEAD^{tree}"]
    tree = subprocess.run(git, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return str(int(tree.stdout, 16)) if tree.returncode == 0 else "1"


def pytest_report_header() -> str:
    return f"chance: again with {SEED}={os.environ[SEED]}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not os.environ.get("SOAK"):
        left_out = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        leave_out_others(item)
        names = {*getattr(item, "fixturenames", ()), *_parameters(item)}
        if not names.isdisjoint(_PROCESSES):
            item.add_marker("process")
    twice = [address for address, count in Counter(item.nodeid for item in items).items() if count > 1]
    if twice:
        raise pytest.UsageError(f"several tests are called {twice[0]}; only the first of them would run")
    _distribute(items)


def _parameters(item: pytest.Item) -> set[str]:
    """The texts among the parameters of a test: some name the server that it needs."""
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return {value for value in values if isinstance(value, str)}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Stops a run whose processes would each make again what their tests should share."""
    if getattr(session.config.option, "loadgroup", False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError(f"pytest-xdist does not see the group of {item.nodeid}")


def _distribute(items: list[pytest.Item]) -> None:
    """Let tests that share what is expensive to make run in one process; all others go where there is room.

    Tests with Spark come first: one process runs all of them. Then follow files with a browser, which compute
    between those that start processes, which mostly wait. The short tests at the end let all processes of a
    run end together.
    """
    browser: dict[Path, None] = {}
    process: dict[Path, None] = {}
    for item in items:
        if _shares(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{item.path.stem}"))
        if "chromium" in getattr(item, "fixturenames", ()):
            browser[item.path] = None
        elif item.get_closest_marker("process"):
            process[item.path] = None
    place = {path: number / len(files) for files in (process, browser) for number, path in enumerate(files)}
    items.sort(key=lambda item: (_group(item) != "spark", place.get(item.path, 1.0)))


def _group(item: pytest.Item) -> str:
    """The group of tests that run in one process; empty where a test may run in any."""
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark is not None else ""


def _shares(item: pytest.Item) -> bool:
    """Returns whether a fixture of these tests, not of a plugin, is made once for the item's module."""
    definitions = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    return any(
        found[-1].scope in ("module", "class") and found[-1].baseid.startswith("tests")
        for found in definitions
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Has the chance of each test follow from the seed of the run and the test's address."""
    random.seed(f"{os.environ[SEED]} {retries.name(item.nodeid)}")


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
