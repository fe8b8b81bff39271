"""The processes of an enhanced cluster, and what they report."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

import mom_client
from tests.support.broker_process import BrokerProcess
from tests.support.forked import Forked
from tests.support.plain_http import NO_TLS
from tests.support.ports import reserve_ports

QUEUE = "/queue/orders"
LEASE_S = 2.0


class MemberProcess(BrokerProcess):
    """A broker, and its clients."""

    def stomp(self) -> mom_client.Client:
        address = f"stomp://{self.host}:{self.stomp_port}"
        return mom_client.connect(address, login=self.user, passcode=self.password)

    def rest(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"{self.url}/api/v1", auth=httpx.BasicAuth(self.user, self.password), verify=NO_TLS
        )


class Members:
    """Brokers b1, b2, … whose journals are in one store, at an address for all or one for
    each; b1 is started as a `program`."""

    def __init__(
        self,
        folder: Path,
        journal: str | Sequence[str],
        number: int,
        *options: str,
        program: type[subprocess.Popen[Any]] = Forked,
    ) -> None:
        ports = reserve_ports(number)
        journals = [journal] * number if isinstance(journal, str) else journal
        self.all = [
            MemberProcess(
                folder / f"b{at}",
                *("--name", f"b{at}", "--cluster-id", "shop", "--cluster-port", str(port)),
                *("--journal", journals[at - 1], "--lease-s", str(LEASE_S), *options),
                program=program if at == 1 else Forked,
                environment={"MOM_CLUSTER_SECRET": "a secret of the cluster in this test"},
            )
            for at, port in enumerate(ports, 1)
        ]

    def __iter__(self) -> Iterator[MemberProcess]:
        return iter(self.all)


@contextmanager
def running(members: Members) -> Iterator[Members]:
    """All of them, started; what still runs at the end is killed."""
    try:
        for broker in members:
            broker.start()
        yield members
    finally:
        for broker in members:
            broker.kill()


async def cluster_of(broker: MemberProcess) -> dict[str, Any]:
    """The cluster as one of its members reports it."""
    async with broker.rest() as http:
        found: dict[str, Any] = (await http.get("/cluster")).json()
    return found


async def states(broker: MemberProcess) -> dict[str, str]:
    """The states of all members."""
    enhanced = (await cluster_of(broker))["enhanced"]
    return {member["broker"]: member["state"] for member in enhanced["members"]}


async def linked(broker: MemberProcess) -> list[str]:
    async with broker.rest() as http:
        links = (await http.get("/cluster")).json()["links"]
    return sorted(link["broker"] for link in links if link["state"] == "up")


async def adopted(*brokers: MemberProcess) -> list[str]:
    """The members whose journals are served by one of these brokers."""
    found = []
    for broker in brokers:
        async with broker.rest() as http:
            found += [one["member"] for one in (await http.get("/cluster")).json()["adopted"]]
    return found


async def taken_over(broker: MemberProcess) -> list[str]:
    """The members that were taken over so far, as a broker knows it."""
    async with broker.rest() as http:
        report = (await http.get("/cluster")).json()["enhanced"]
    return [takeover["member"] for takeover in report["takeovers"]]
