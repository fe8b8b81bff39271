"""Brokers of a cluster: each in a process of its own, on ports that it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.node_process import NodeProcess, Nodes, nodes_in
from tests.support.ports import reserve_ports

SECRET = "a secret of the cluster in this test"


class Brokers:
    """The brokers b1, b2, … of one cluster; all know all addresses."""

    def __init__(self, nodes: Nodes, number: int, keeper: int | None = None, **settings: Any) -> None:
        self._nodes = nodes
        self.ports = reserve_ports(number)
        self.addresses = tuple(f"127.0.0.1:{port}" for port in self.ports)
        if keeper is not None:
            settings["cluster_keeper"] = self.addresses[keeper]
        self.all = [
            nodes.node(
                f"b{at}",
                **{"cluster_port": port, "cluster": self.addresses, "cluster_secret": SECRET, **settings},
            )
            for at, port in enumerate(self.ports, 1)
        ]

    def __getitem__(self, at: int) -> NodeProcess:
        return self.all[at]

    def __iter__(self) -> Iterator[NodeProcess]:
        return iter(self.all)

    def start(self) -> None:
        for node in self.all:
            node.start()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with nodes_in(tmp_path) as made:
        yield made


@pytest.fixture
def three(nodes: Nodes) -> Brokers:
    """Three brokers that run."""
    brokers = Brokers(nodes, 3)
    brokers.start()
    return brokers
