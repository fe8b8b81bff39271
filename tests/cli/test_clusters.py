"""`mom cluster`: the brokers of a cluster, at a broker whose report the test makes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvicorn

from broker_app.cli.base.failures import FAILED, NOT_FOUND, OK, USAGE
from broker_app.core.commands import Publish
from broker_app.core.message import Envelope
from broker_app.core.model import InnerReceiver, Peer
from broker_app.features.cluster.configuration.central_reload import BrokerReload
from broker_app.features.cluster.links.frames import ChangedSetting
from broker_app.features.cluster.record.change_record import DESTINATION, Change
from broker_app.features.cluster.record.replicated_record import KeeperSettings
from broker_app.features.cluster.report import DiscoveryReport
from tests.cli.conftest import CommandLine, Result
from tests.cluster.test_pages import Others, row
from tests.rest.conftest import Rest
from tests.rest.test_cluster_destinations import Cluster
from tests.rest.test_cluster_record import a_record
from tests.rest.test_journal import administered
from tests.support.clusters import a_link, a_report, an_enhanced_cluster, an_interest

pytestmark = pytest.mark.process


class Served:
    """A REST API on a port, and `mom` for it."""

    def __init__(self, rest: Rest, command_line: CommandLine) -> None:
        self.rest = rest
        self._command_line = command_line

    async def mom(self, *words: str) -> Result:
        return await self.command("cluster", *words)

    async def command(self, *words: str) -> Result:
        return await asyncio.to_thread(self._command_line, *words)


@pytest.fixture
async def served(command_line: CommandLine, tmp_path: Path) -> AsyncIterator[Served]:
    rest = administered(Rest(jobs=tmp_path / "jobs"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(rest.rest_api, lifespan="off", log_level="warning"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        command_line.environment["MOM_URL"] = f"http://alice:alice@127.0.0.1:{listener.getsockname()[1]}"
        yield Served(rest, command_line)
        server.should_exit = True
        await serving
    await rest.jobs.stop()
    await rest.bulk.stop()
    await rest.engine.stop()


async def test_a_cluster_is_shown_by_its_brokers_links_and_consumers(served: Served) -> None:
    alone = await served.mom("status")
    assert (alone.code, "mom up --name b1 --cluster-port 7676 --cluster" in alone.err) == (NOT_FOUND, True)

    served.rest.cluster = a_report(
        a_link("b2"), a_link("b3", state="refused", reason="autocreate.queue is false here and true there"),
        keeper="b3:7676", keeper_state="the keeper b3:7676 cannot be reached", quiesced=True,
    )  # fmt: skip
    found = await served.mom("status")
    assert found.code == FAILED, "what does not work is for scripts, too"
    assert [row[:2] for row in found.rows[1:]] == [["b1", "here"], ["b2", "up"], ["b3", "refused"]]
    assert found.err.splitlines() == [
        "b1 at b1.example:7676: connected with 1 of 2 other brokers; it refuses new clients (quiesced)",
        "keeper b3:7676; changes of the configuration are refused: the keeper b3:7676 cannot be reached",
        "mom: not connected with b3 (refused: autocreate.queue is false here and true there)",
        "  fix:   `mom cluster links` shows each link, docs/clusters.md what to do",
    ]
    links = await served.mom("links", "--state", "up", "-o", "json")
    assert [(row["broker"], row["round_trip_ms"]) for row in links.json()] == [("b2", 0.8)]

    served.rest.cluster = a_report(
        a_link("b2"),
        interest=[an_interest("b2", "/queue/orders", consumers=3), an_interest("b1", "/queue/b")],
    )
    found = await served.mom("status")
    assert (found.code, found.err) == (
        OK,
        "b1 at b1.example:7676: connected with the other broker\nno keeper\n",
    )
    consumers = await served.mom("consumers", "orders")
    assert consumers.rows == [
        ["address", "broker", "consumers", "credit", "selector"], ["/queue/orders", "b2", "3", "100", ""]
    ]  # fmt: skip


async def test_browse_names_the_brokers_whose_messages_it_does_not_show(served: Served) -> None:
    envelope = Envelope("/queue/orders", b"", persistent=True)
    served.rest.engine.submit(Publish(Peer(InnerReceiver()), [(envelope, b"one", None)]))
    alone = await served.command("browse", "orders")
    assert (alone.code, "not shown" in alone.err, "one" in alone.out) == (OK, False, True)
    served.rest.engine.broker.cluster_usage.others = lambda: ["b2", "b3"]
    found = await served.command("browse", "orders")
    assert (found.code, "one" in found.out) == (OK, True)
    assert "not shown: the messages of b2, b3, which cannot be asked now" in found.err


async def test_browse_shows_the_broker_of_each_message(served: Served) -> None:
    envelope = Envelope("/queue/orders", b"", persistent=True)
    served.rest.engine.submit(Publish(Peer(InnerReceiver()), [(envelope, b"one", None)]))
    others: Any = Others(b1=[], b2=[row(1, body=b"two")])
    served.rest.parts.rest.browser.others = others
    found = await served.command("browse", "orders")
    assert (found.code, "not shown" in found.err) == (OK, False)
    assert [(line[0], line[-1]) for line in found.rows] == [("broker", "body"), ("b2", "two"), ("b1", "one")]


async def test_destinations_are_shown_at_each_broker_and_brokers_that_are_missing_are_named(
    served: Served,
) -> None:
    Cluster(served.rest, served.rest)  # the other broker answers the same
    await served.rest.publish("orders", "1", "2")
    await served.rest.publish("bills", "3")
    found = await served.mom("destinations", "orders")
    assert found.code == OK
    assert [row[:5] for row in found.rows] == [
        ["address", "broker", "depth", "unsettled", "consumers"],
        *(["/queue/orders", broker, "2", "0", "0"] for broker in ("b1", "b2")),
    ]
    assert "not shown: the destinations of b3, which cannot be asked now" in found.err
    every = (await served.mom("destinations", "--filter", "bills", "-o", "json")).json()
    assert [(row["address"], row["scope"]) for row in every] == [("/queue/bills", "broker")] * 2


async def test_the_change_record_is_listed_backed_up_restored_and_compacted(
    served: Served, tmp_path: Path
) -> None:
    record = served.rest.record = a_record(served.rest, tmp_path, KeeperSettings("b1host:7676", is_here=True))
    await record.start(0, {})
    await record.enter([Change(DESTINATION, "/queue/a", {"max_messages": 5})])
    found = await served.mom("record", "ls", "--kind", "destination")
    assert [row[:4] for row in found.rows[1:]] == [["/queue/a", "destination", "1", "b1"]]
    backup = tmp_path / "backup"
    assert (await served.mom("record", "backup", str(backup))).code == OK
    await record.enter([Change(DESTINATION, "/queue/a", None)])
    assert "1 entries were changed" in (await served.mom("record", "restore", str(backup))).err
    assert record.record.value(DESTINATION, "/queue/a") == {"max_messages": 5}
    assert "1 entries in 2 lines" in (await served.mom("record", "compact")).err
    assert (await served.mom("record", "ls", "--kind", "queues")).code == USAGE
    assert "No such file" in (await served.mom("record", "restore", str(tmp_path / "none"))).err
    refused = await served.mom("changemaster", "b2")
    assert "NOT_ALLOWED: only the present keeper" in refused.err
    await record.stop()


async def test_reload_shows_what_each_broker_did_with_the_central_file(served: Served) -> None:
    limit, size = ChangedSetting("max_messages", "0", "9"), ChangedSetting("max_body_bytes", "64", "32")
    served.rest.cluster = a_report(a_link("b2"))
    served.rest.reloads = [BrokerReload(broker="b1", applied=[limit]), BrokerReload(broker="b2")]
    found = await served.mom("reload")
    assert (found.code, found.rows[1:]) == (
        OK,
        [["b1", "max_messages", "applied", "0", "9", ""], ["b2", "", "as before", "", "", ""]],
    )
    served.rest.cluster = a_report(a_link("b2"), a_link("b3", state="connecting"))
    served.rest.reloads = [
        BrokerReload(broker="b1", refused=[size]),
        BrokerReload(broker="b2", error="x:1: no"),
    ]
    found = await served.mom("reload")
    assert (found.code, found.rows[1:]) == (
        FAILED,
        [
            ["b1", "max_body_bytes", "needs a restart", "64", "32", ""],
            ["b2", "", "failed", "", "", "x:1: no"],
        ],
    )
    assert "refused by b1, b2; not linked: b3" in found.err
    reloads = [action for action in served.rest.actions.take() if action.action == "reloaded"]
    assert [(action.operator.user, action.facts["brokers"]) for action in reloads] == [("alice", 2)] * 2


async def test_an_enhanced_cluster_is_shown_with_its_members_and_takeovers(served: Served) -> None:
    served.rest.cluster = a_report(a_link("b2"))
    none = await served.mom("takeovers")
    assert (none.code, "no member of an enhanced cluster" in none.err) == (FAILED, True)

    discovery = [DiscoveryReport(way="registry", place="shop", error="no route to host")]
    served.rest.cluster = a_report(
        a_link("b2", found_by="registry"), enhanced=an_enhanced_cluster(), discovery=discovery
    )
    found = await served.mom("status")
    assert "brokers are found by registry shop: it does not work: no route to host" in found.err
    assert any(row[0] == "b2" and "registry" in row for row in found.rows)
    assert "a member that fails is taken over after 4 s at most" in found.err
    assert "last takeover: b1 of b3 at 2025-06-15T15:06:43.000Z, complete in 0.25 s" in found.err
    assert "and none in 2 looks at it); lost: nothing; `mom cluster takeovers` lists all" in found.err
    assert (
        "b2 is suspect since 2025-06-15T15:06:43.500Z, by b1, b3: no heart-beat for 2.5 s; looks at it that "
        "found none: 1; it is taken over after 2 looks, when its lease has ended"
    ) in found.err
    states = {row[0]: row[1] for row in found.rows}
    assert (states["b2"], states["b3"]) == ("up", "TAKEOVER_COMPLETE")
    (row,) = (await served.mom("takeovers", "-o", "json")).json()
    assert (row["taker"], row["member"], row["epoch"], row["lost"]) == ("b1", "b3", 7, "nothing")


async def test_a_member_that_is_away_and_was_taken_over_is_named_and_is_no_failure(served: Served) -> None:
    away = a_link("b3", state="connecting", reason="connection refused")
    enhanced = an_enhanced_cluster()
    served.rest.cluster = a_report(a_link("b2"), away, a_link("b3~7"), enhanced=enhanced)
    found = await served.mom("status")
    assert (found.code, "b3 is away, and b1 has taken over from it" in found.err) == (OK, True), found.err
    assert "b1 at b1.example:7676: connected with the other broker\n" in found.err
    (row,) = (await served.mom("links", "--state", "connecting", "-o", "json")).json()
    assert (row["broker"], row["taken_by"]) == ("b3", "b1")
    served.rest.reloads = [BrokerReload(broker="b1"), BrokerReload(broker="b2")]
    assert (await served.mom("reload")).code == OK, "b3 reads the central file when it comes back"

    b1, b2, b3 = enhanced.members
    failed = msgspec.structs.replace(b3, state="TAKEOVER_FAILED")
    served.rest.cluster = a_report(a_link("b2"), away, enhanced=an_enhanced_cluster(members=[b1, b2, failed]))
    found = await served.mom("status")
    assert (found.code, "not connected with b3 (connecting: connection refused)" in found.err) == (
        FAILED,
        True,
    )
    assert "connected with 1 of 2 other brokers" in found.err

    served.rest.cluster = a_report(away, enhanced=enhanced)
    found = await served.mom("status")
    assert (found.code, "b1 at b1.example:7676: connected with no other broker\n" in found.err) == (OK, True)


async def test_a_takeover_is_asked_for_with_the_time_since_the_member_was_seen(served: Served) -> None:
    served.rest.cluster = a_report(a_link("b2"), enhanced=an_enhanced_cluster())
    strange = await served.mom("takeover", "b9", "-f")
    assert (strange.code, "the members are b1, b2, b3" in strange.err) == (USAGE, True)
    asked = await served.mom("takeover", "b2")
    assert (asked.code, "b2 is UNKNOWN; its last heart-beat was 2.5 s ago" in asked.err) == (USAGE, True)
    assert not served.rest.takeovers
    assert (await served.mom("takeover", "b2", "--yes")).code == OK
    forced = await served.mom("takeover", "-n", "b2", "-f")
    assert (forced.code, "its last heart-beat was 2.5 s ago" in forced.err) == (OK, True)
    assert [order[::2] for order in served.rest.takeovers] == [("b2", False), ("b2", True)]


async def test_a_removal_is_asked_for_with_the_messages_of_the_member(served: Served) -> None:
    served.rest.cluster = a_report(a_link("b2"), enhanced=an_enhanced_cluster())
    strange = await served.mom("remove", "b9", "-f")
    assert (strange.code, "the members are b1, b2, b3" in strange.err) == (USAGE, True)
    asked = await served.mom("remove", "b3")
    assert (asked.code, "b3 is TAKEOVER_COMPLETE; messages in its journal: " in asked.err) == (USAGE, True)
    assert not served.rest.removals
    done = await served.mom("remove", "b3", "--yes", "-o", "json")
    assert (done.code, done.json()) == (OK, {"member": "b3", "journals": ["shop.b3"], "messages": 0})
    assert (await served.mom("remove", "b3", "-f", "-o", "json")).json()["messages"] == 4
    assert served.rest.removals == [("b3", False), ("b3", True)]
