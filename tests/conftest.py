"""What all tests share: a real broker in a child process, and its log in the report of a failure."""

from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker_process import BrokerProcess, StartBroker
from tests.support.chromium import chromium

__all__ = ["broker", "chromium", "start_broker"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests of a module; each test uses destinations of its own."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data")
    process.start()
    yield process
    process.kill()


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Starts brokers that one test has for itself: `start_broker("--server", "daphne", environment={…})`.

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives each test an address of its own. What schemathesis makes of the operations of an interface shares
    one, and of such tests pytest-xdist runs the first alone."""
    for item in items:
        _, bracket, operation = item.name.partition("[")
        if bracket and item.id.params is None:
            item._id = item.id.with_params(operation.removesuffix("]"))
    twice = [address for address, count in Counter(item.nodeid for item in items).items() if count > 1]
    if twice:
        raise pytest.UsageError(f"several tests are called {twice[0]}; only the first of them would run")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Adds the log of each broker that a failed test has used."""
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, BrokerProcess):
                report.sections.append((f"log of the broker in {value.data}", value.log[-10_000:]))
    return report
