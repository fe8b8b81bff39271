"""Metrics, as a parser of Prometheus reads them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from broker_app.base import deadline
from broker_app.base.states import BRIDGE
from broker_app.core import commands as c
from broker_app.core.model import InnerReceiver, Peer
from broker_app.features.callbacks.webhooks.push_totals import BOUNDS_S
from broker_app.features.callbacks.webhooks.verdict import OUTCOMES
from broker_app.features.cluster.report import DiscoveryReport, TakeoverTotals
from broker_app.features.cluster.status import status
from broker_app.net.policy.policy import Grant
from broker_app.net.rest.node.mirror_status import ACTIVE, STANDBY
from broker_app.telemetry.metrics import detailed_metrics, families
from broker_app.telemetry.metrics.families import BATCH_BOUNDS_S, Histogram
from broker_app.telemetry.metrics.node_metrics import of_cluster, of_mirrors, of_sites
from broker_app.telemetry.metrics.pipeline_metrics import RunFigures
from tests.rest.bridging import report
from tests.rest.conftest import Rest
from tests.rest.test_journal import administered
from tests.support.clusters import a_link, a_report, a_takeover, an_enhanced_cluster

METRICS, DETAILED = "/metrics", "/metrics/detailed"
#: by (name of the sample, its labels, sorted)
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def admin(rest: Rest) -> Rest:
    return administered(rest)


def parsed(reply: httpx.Response) -> Samples:
    assert reply.status_code == 200, reply.text
    found: Samples = {}
    for family in read_text(reply.text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found, "a sample is there once"
            found[key] = sample.value
    return found


async def scraped(rest: Rest, path: str = METRICS, **query: Any) -> Samples:
    """The metrics, a second later."""
    rest.now += 1
    rest.statistics.sample(rest.now)
    return parsed(await rest.alice.get(path, params=query))


def of(samples: Samples, name: str) -> Mapping[Any, float]:
    """The samples of a name: by the values of their labels."""
    found = {
        tuple(value for _, value in labels): value for (own, labels), value in samples.items() if own == name
    }
    return {key[0] if len(key) == 1 else key: value for key, value in found.items()}


async def test_the_text_is_that_of_prometheus_and_every_family_is_listed(admin: Rest) -> None:
    reply = await admin.alice.get(METRICS)
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    known = {family.name: family for group in families.AGGREGATED.values() for family in group}
    for line in reply.text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert known[name].kind == kind
    for family in read_text(reply.text):
        assert family.documentation


async def test_a_client_may_ask_for_openmetrics(admin: Rest) -> None:
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2"
    reply = await admin.alice.get(METRICS, headers={"accept": accept})
    assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    read: Any = read_openmetrics  # it has no types
    names = {family.name for family in read(reply.text)}
    assert {"mom_messages_published", "mom_build_info"} <= names


def test_names_follow_the_rules_of_prometheus() -> None:
    every = [
        family
        for groups in (families.AGGREGATED, families.DETAILED)
        for group in groups.values()
        for family in group
    ]
    for family in every:
        assert re.fullmatch("mom_[a-z_]+", family.name)
        assert family.name.endswith("_total") == (family.kind == families.COUNTER)
        assert family.help
    for groups in (families.AGGREGATED, families.DETAILED):
        for names in ([family.name for family in group] for group in groups.values()):
            assert len(names) == len(set(names))


# ---------------------------------------------------------------------- what is counted


async def test_messages_are_counted_by_kind_and_reason(admin: Rest) -> None:
    await admin.publish("orders", "1", "2", "3")
    await admin.alice.post("/topics/news/messages", content="x")
    consumer = Peer(InnerReceiver(), user="c")
    admin.engine.submit(c.Subscribe(consumer, "1", "/queue/orders", c.INDIVIDUAL))
    await admin.until(lambda: len(consumer.unsettled) == 3)
    admin.engine.submit(c.Settle(consumer, [1]))
    admin.engine.submit(c.Return(consumer, [2]))
    admin.engine.submit(c.Return(consumer, [3], dead_reason="REJECTED"))
    await admin.until(lambda: admin.depth("orders.dead") == 1)
    found = await scraped(admin)
    assert of(found, "mom_messages_published_total") == {"queue": 3, "topic": 1}
    assert of(found, "mom_messages_delivered_total") == {"queue": 4, "topic": 0}
    assert of(found, "mom_messages_acked_total") == {"queue": 1, "topic": 0}
    assert of(found, "mom_messages_redelivered_total") == {(): 1}
    assert of(found, "mom_messages_dead_lettered_total") == {"REJECTED": 1}
    assert of(found, "mom_messages_dropped_total") == {"OTHER": 0}
    assert of(found, "mom_destination_messages") == {"ready": 0, "leased": 1, "dead": 1, "delayed": 0}
    assert of(found, "mom_subscriptions") == {(): 1}
    later = await scraped(admin)
    totals = {key: value for key, value in found.items() if key[0].endswith("_total")}
    assert all(later[key] >= value for key, value in totals.items()), "counters only grow"


async def test_the_journal_and_the_node_are_shown(admin: Rest) -> None:
    await admin.publish("orders", "1")
    found = await scraped(admin)
    commits = found["mom_journal_commits_total", (("backend", "memory"),)]
    assert commits == admin.journal.statistics()["commits"] > 0
    assert of(found, "mom_journal_bytes").keys() == {("memory", "log"), ("memory", "files")}
    assert of(found, "mom_node_info") == {("mom", "active"): 1}
    assert of(found, "mom_resident_memory_bytes")[()] > 1e6
    assert not of(found, "mom_resource_alarm") and not of(found, "mom_lease_held")
    admin.engine.submit(c.StoreSpace(0))
    await admin.engine.wait_idle()
    assert of(await scraped(admin), "mom_resource_alarm") == {"store-full": 1}


async def test_bridges_are_shown_with_their_state(admin: Rest) -> None:
    admin.bridges.known["west"] = report()
    found = await scraped(admin)
    assert of(found, "mom_bridge_state") == {("west", state): int(state == "retrying") for state in BRIDGE}
    assert of(found, "mom_bridge_backlog_messages") == {"west": 5}
    assert of(found, "mom_bridge_sent_total") == {"west": 20}
    assert of(found, "mom_bridge_last_progress_timestamp_seconds") == {"west": 1_750_000_000.5}
    admin.bridges.known["west"]["flows"][0]["queue"] = 'b"\\ills'
    detailed = await scraped(admin, DETAILED, family="flow", name="orders")
    assert of(detailed, "mom_bridge_flow_backlog_messages") == {("west", "orders"): 2}
    detailed = await scraped(admin, DETAILED, family="flow", limit=1)
    assert of(detailed, "mom_bridge_flow_acked_total") == {("west", 'b"\\ills'): 8}
    assert of(detailed, "mom_bridge_flows_left_out") == {(): 1}


def test_a_lease_and_its_standbys_are_shown() -> None:
    standby = {"id": "b", "state": STANDBY, "in_step": False, "lag_records": 7, "lag_s": 2.5}
    brokers = [{"id": "a", "state": ACTIVE}, standby]
    active = {"state": ACTIVE, "lease": {"left_s": 9.5}, "brokers": brokers}
    assert dict(of_mirrors(active)) == {
        "mom_lease_held": {(): 1},
        "mom_lease_trusted_seconds": {(): 9.5},
        "mom_mirror_in_step": {("b",): 0},
        "mom_mirror_lag_records": {("b",): 7},
        "mom_mirror_lag_seconds": {("b",): 2.5},
    }
    assert dict(of_mirrors({**active, "state": STANDBY}))["mom_lease_held"] == {(): 0}


def test_takeovers_by_a_broker_are_counted_with_what_was_lost() -> None:
    first, second = a_takeover(lost_messages=4), a_takeover(took_s=0.5, lost_messages=None)
    totals = TakeoverTotals(refused_s=12.5).with_one(first).with_one(second).with_failure()
    discovery = [
        DiscoveryReport(way="multicast", place="239.255.2.3:6155", error="no such device"),
        DiscoveryReport(way="registry", place="shop"),
    ]
    report = a_report(enhanced=an_enhanced_cluster(totals=totals), discovery=discovery)
    found = dict(of_cluster(status(report)))
    shown = {name: samples for name, samples in found.items() if "_link_" not in name}
    assert shown == {
        "mom_cluster_discovery_up": {("multicast", "239.255.2.3:6155"): 0, ("registry", "shop"): 1},
        "mom_cluster_members": {("OPERATING",): 1, ("TAKEOVER_COMPLETE",): 1, ("UNKNOWN",): 1},
        "mom_cluster_takeovers_total": {("complete",): 2, ("failed",): 1},
        "mom_cluster_takeover_messages_total": {(): 34},
        "mom_cluster_takeover_lost_messages_total": {(): 4},
        "mom_cluster_takeover_last_seconds": {(): 0.5},
        "mom_cluster_takeover_refusing_seconds_total": {(): 12.5},
    }


def test_the_links_of_a_cluster_are_shown_and_the_keeper_where_there_is_one() -> None:
    down = a_link("b3", state="connecting", round_trip_ms=None, sent=0, received=0, returned=0)
    found = dict(of_cluster(status(a_report(a_link("b2"), down))))
    assert found == {
        "mom_cluster_link_up": {("b2",): 1, ("b3",): 0},
        "mom_cluster_link_sent_total": {("b2",): 120, ("b3",): 0},
        "mom_cluster_link_received_total": {("b2",): 30, ("b3",): 0},
        "mom_cluster_link_returned_total": {("b2",): 2, ("b3",): 0},
        "mom_cluster_link_unsettled": {
            ("b2", "there"): 4, ("b2", "here"): 1, ("b3", "there"): 4, ("b3", "here"): 1
        },
        "mom_cluster_link_round_trip_seconds": {("b2",): 0.0008},
    }  # fmt: skip
    for state, up in (("", 1), ("it cannot be reached", 0)):
        report = status(a_report(keeper="b1:7676", keeper_state=state))
        assert dict(of_cluster(report))["mom_cluster_keeper_up"] == {(): up}


# ---------------------------------------------------------------------- single destinations


def test_the_sites_of_message_channels_are_shown() -> None:
    here: dict[str, Any] = {
        "name": "b1", "is_here": True, "handlers": 2, "in_flight": 0, "sent": 0, "received": 7,
        "dropped": {"noserver": 3}, "failed": {}, "round_trip_ms": None,
    }  # fmt: skip
    there = {
        **here, "name": "b2", "is_here": False, "handlers": None, "in_flight": 4, "sent": 9, "dropped": {},
        "failed": {"timeout": 1}, "round_trip_ms": 1.5,
    }  # fmt: skip
    assert dict(of_sites([here, there])) == {
        "mom_channel_handlers": {(): 2},
        "mom_channel_in_flight": {("b1",): 0, ("b2",): 4},
        "mom_channel_sent_total": {("b1",): 0, ("b2",): 9},
        "mom_channel_received_total": {("b1",): 7, ("b2",): 7},
        "mom_channel_dropped_total": {("b1", "noserver"): 3},
        "mom_channel_failed_total": {("b2", "timeout"): 1},
        "mom_channel_round_trip_seconds": {("b2",): 0.0015},
    }


async def test_destinations_are_shown_by_pattern(admin: Rest) -> None:
    await admin.publish("orders.new", "1", "2")
    await admin.publish("orders.old.eu", "1")
    await admin.publish("bills", "1")
    await admin.alice.post("/topics/orders.t/messages", content="x")
    found = await scraped(admin, DETAILED, name="orders.*")
    assert of(found, "mom_destination_published_total") == {"/queue/orders.new": 2, "/topic/orders.t": 1}
    assert of(found, "mom_destination_messages")["/queue/orders.new", "ready"] == 2
    assert of(found, "mom_destinations_left_out") == {(): 0}
    below = await scraped(admin, DETAILED, family="destination", name="orders.>")
    assert "/queue/orders.old.eu" in of(below, "mom_destination_consumers")


async def test_a_reply_is_bounded_and_shows_what_it_leaves_out(admin: Rest) -> None:
    for number in range(5):
        await admin.publish(f"q{number}", "1")
    found = await scraped(admin, DETAILED, limit=2)
    assert len(of(found, "mom_destination_published_total")) == 2
    assert of(found, "mom_destinations_left_out") == {(): 3}


async def test_a_reply_is_bounded_by_the_length_of_names_as_well(
    admin: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detailed_metrics, "MAX_CHARACTERS", 300)
    for number in range(5):
        await admin.publish(f"{number}{'x' * 150}", "1")
    found = await scraped(admin, DETAILED)
    assert len(of(found, "mom_destination_published_total")) == 2
    assert of(found, "mom_destinations_left_out") == {(): 3}


async def test_others_are_served_while_many_destinations_are_read(
    admin: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadline, "TURN_S", 0.0)
    peer = Peer(InnerReceiver())
    for number in range(500):
        admin.engine.submit(c.CreateQueue(peer, f"/queue/{number}"))
    await admin.engine.wait_idle()
    metrics = detailed_metrics.DetailedMetrics(admin.engine.broker, admin.statistics, lambda: ())
    reading = asyncio.ensure_future(metrics.of_destinations("", 1_000))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 50
    assert len(dict(reading.result())["mom_destination_consumers"]) == 500


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 10_001}, {"family": "users"}, {"colour": "red"}])
async def test_a_wrong_request_is_refused(admin: Rest, query: dict[str, Any]) -> None:
    assert (await admin.alice.get(DETAILED, params=query)).status_code == 400


# ---------------------------------------------------------------------- the data pipeline


async def test_the_lag_of_a_job_grows_while_it_is_dead(admin: Rest) -> None:
    await admin.publish("orders", "1")
    end = admin.journal.span().end
    assert (await admin.alice.put("/pipeline/cursors/archive", json={"position": end})).status_code == 200
    labels = ("mom", "archive")
    assert of(await scraped(admin), "mom_pipeline_lag_positions") == {labels: 0}
    await admin.publish("orders", "2", "3")
    lag = admin.journal.span().end - end
    found = await scraped(admin)
    assert of(found, "mom_pipeline_lag_positions") == {labels: lag}
    assert lag >= 2 and of(found, "mom_pipeline_lost_positions") == {labels: 0}


async def test_rows_batches_and_the_last_success_of_jobs_are_shown(admin: Rest) -> None:
    counts = [0] * (len(BATCH_BOUNDS_S) + 1)
    counts[0], counts[3], counts[-1] = 2, 1, 4
    admin.pipeline.jobs.append(
        RunFigures("archive", 700, Histogram(BATCH_BOUNDS_S, tuple(counts), 99.5), 1_750_000_001.5)
    )
    admin.pipeline.jobs.append(
        RunFigures("replay", 0, Histogram(BATCH_BOUNDS_S, (0,) * len(counts), 0), None)
    )
    found = await scraped(admin)
    assert of(found, "mom_pipeline_rows_total") == {("mom", "archive"): 700, ("mom", "replay"): 0}
    success = of(found, "mom_pipeline_last_success_timestamp_seconds")
    assert success == {("mom", "archive"): 1_750_000_001.5}
    buckets = of(found, "mom_pipeline_batch_seconds_bucket")
    of_archive = {bound: value for (_, job, bound), value in buckets.items() if job == "archive"}
    assert [of_archive[bound] for bound in ("0.1", "0.5", "1.0", "300.0", "+Inf")] == [2, 2, 3, 3, 7]
    assert of(found, "mom_pipeline_batch_seconds_sum")["mom", "archive"] == 99.5
    assert of(found, "mom_pipeline_batch_seconds_count")["mom", "archive"] == 7


# ---------------------------------------------------------------------- the right


@pytest.mark.parametrize("path", [METRICS, DETAILED])
async def test_metrics_need_a_right_of_their_own(rest: Rest, path: str) -> None:
    administered(rest, (Grant(frozenset({"administer", "read"}), (">",)),))
    for client in (rest.alice, rest.bob):
        reply = await client.get(path)
        assert (reply.status_code, reply.json()["right"]) == (403, "metrics:read")
    assert (await rest.anonymous.get(path)).status_code == 401
    administered(rest, (Grant(frozenset({"metrics:read"}), (">",)),))
    assert (await rest.alice.get(path)).status_code == 200
    assert (await rest.alice.get("/journal/span")).status_code == 403


async def test_callbacks_are_counted_from_the_start_on(admin: Rest) -> None:
    found = await scraped(admin)
    assert of(found, "mom_callback_pushes_total") == dict.fromkeys(OUTCOMES, 0)
    assert of(found, "mom_callback_push_seconds_bucket").keys() == {*map(str, BOUNDS_S), "+Inf"}
    assert of(found, "mom_callback_push_seconds_count") == of(found, "mom_callback_pending") == {(): 0}
