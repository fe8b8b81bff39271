"""Nodes for tests of forwarding, and their logs in the report of a failure."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.node_process import Nodes, nodes_in


@pytest.fixture
def nodes(processes: None, tmp_path: Path) -> Iterator[Nodes]:
    with nodes_in(tmp_path) as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Adds the logs of the nodes that a failed test has used."""
    report = yield
    made = getattr(item, "funcargs", {}).get("nodes")
    if report.failed and made is not None:
        for node in made.nodes:
            report.sections.append((f"log of {node.name}", node.log[-5_000:]))
    return report
