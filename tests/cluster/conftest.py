"""Brokers of a cluster: each in a process of its own, on ports that it keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.node_process import NodeProcess, Nodes, nodes_in
from tests.support.ports import reserve_ports

SECRET = "a secret of the cluster in this test"
#: brokers of a cluster
BROKERS = 5 if "SOAK" in os.environ else 3


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
def nodes(processes: None, tmp_path: Path) -> Iterator[Nodes]:
    with nodes_in(tmp_path) as made:
        yield made


@pytest.fixture
def several(nodes: Nodes) -> Brokers:
    """Brokers that run."""
    brokers = Brokers(nodes, BROKERS)
    brokers.start()
    return brokers
