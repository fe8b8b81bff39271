"""Whole brokers of one cluster, each with its configuration: what is declared at one is propagated to all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mom_client
from tests.cluster.conftest import SECRET
from tests.support.broker_process import BrokerProcess
from tests.support.ports import reserve_ports


@contextmanager
def whole_brokers(folder: Path, number: int, *, keeper: bool = False) -> Iterator[list[BrokerProcess]]:
    """Run so many brokers, of which the first may be the keeper."""
    ports = reserve_ports(number)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    environment = {
        "MOM_CLUSTER": ",".join(addresses),
        "MOM_CLUSTER_SECRET": SECRET,
        **({"MOM_CLUSTER_KEEPER": addresses[0]} if keeper else {}),
    }
    brokers = [
        BrokerProcess(
            folder / f"b{at}",
            environment={"MOM_NAME": f"b{at}", "MOM_CLUSTER_PORT": str(port), **environment},
        )
        for at, port in enumerate(ports, 1)
    ]
    try:
        for broker in brokers:
            broker.start()
        yield brokers
    finally:
        for broker in brokers:
            broker.kill()


def settings(broker: BrokerProcess, name: str) -> Any:
    """The settings of a queue's own; None if there is no such queue."""
    answer = broker.request("GET", f"/api/v1/queues/{name}")
    return answer.json().get("settings") if answer.status == 200 else None


def client_of(broker: BrokerProcess) -> mom_client.Client:
    """A client that stays at its broker."""
    address = f"stomp://127.0.0.1:{broker.stomp_port}"
    return mom_client.connect(address, login=broker.user, passcode=broker.password, reconnect=False)
