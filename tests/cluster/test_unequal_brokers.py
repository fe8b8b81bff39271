"""Brokers that may not join: each is refused with the property that differs, and both values (CL-T14)."""

from __future__ import annotations

from tests.cluster.conftest import BROKERS, Brokers
from tests.cluster.test_failover_of_clients import linked
from tests.support.awaiting import becomes
from tests.support.node_process import NodeProcess, Nodes

DIFFERS = "imq.autocreate.queue (auto_create_queues) is 'true' at b1 and 'false' at b2, and must be equal"
TAKEN = "imq.brokerid: two brokers have the name 'b1', at {} and {}"


async def test_a_broker_that_differs_or_has_the_name_of_another_is_refused_with_both_values(
    nodes: Nodes,
) -> None:
    brokers = Brokers(nodes, BROKERS)
    b1, differs, *equal, same_name = brokers
    differs.settings["auto_create_queues"] = False
    same_name.settings["name"] = "b1"
    brokers.start()
    here, *_, elsewhere = brokers.addresses

    async def refusals(node: NodeProcess) -> dict[str, bool]:
        """By address, whether the link is refused for the reason of the broker there."""
        async with node.rest() as http:
            rows = (await http.get("/cluster/links")).json()["items"]
        reasons = (DIFFERS, TAKEN.format(here, elsewhere), TAKEN.format(elsewhere, here))
        return {
            row["address"]: row["state"] == "refused" and row["reason"].startswith(reasons) for row in rows
        }

    refused = {
        address: node not in equal
        for address, node in zip(brokers.addresses[1:], brokers.all[1:], strict=True)
    }
    await becomes(lambda: refusals(b1), refused)
    await becomes(lambda: linked(b1), len(equal))
    async with differs.rest() as http:
        rows = (await http.get("/cluster/links")).json()["items"]
    assert not any(row["state"] == "up" for row in rows)
