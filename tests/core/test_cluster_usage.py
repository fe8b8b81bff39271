"""Limits that the brokers of a cluster share (`scope=cluster`), and those of each broker."""

from __future__ import annotations

from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.model import PRODUCER_MS
from broker_app.core.policy import (
    BROKER,
    CLUSTER,
    FLOW_CONTROL,
    REJECT_NEWEST,
    REMOVE_OLDEST,
    DestinationPolicy,
    Policies,
)
from broker_app.core.remote.cluster_usage import Usage
from tests.core.stage import Stage

Q, T = "/queue/a", "/topic/t"


def stage_with(address: str = Q, **policy: Any) -> Stage:
    stage = Stage()
    stage.decide(c.Reconfigure(Policies(exact={address: DestinationPolicy(**policy)})))
    stage.broker.cluster_usage.brokers = lambda: 3
    return stage


def waiting(stage: Stage) -> list[bytes]:
    return [message.body for lane in stage.queue(Q).lanes for message in lane.in_memory()]


def test_a_limit_of_each_broker_does_not_count_what_others_hold() -> None:
    stage = stage_with(scope=BROKER, max_messages=2, max_producers=1, limit_behavior=REJECT_NEWEST)
    stage.broker.cluster_usage.update(Q, Usage(messages=100, bytes=100, producers=100))
    client = stage.client()
    client.publish(Q, b"1")
    client.publish(Q, b"2")
    with pytest.raises(Refused, match="queue-full"):
        client.publish(Q, b"3")


def test_a_limit_of_the_cluster_counts_the_messages_of_others() -> None:
    stage = stage_with(scope=CLUSTER, max_messages=10, limit_behavior=REJECT_NEWEST)
    usage, client = stage.broker.cluster_usage, stage.client()
    usage.update(Q, Usage(messages=9))
    client.publish(Q, b"1")
    with pytest.raises(Refused, match="holds at most 10 messages in all brokers of the cluster together"):
        client.publish(Q, b"2")
    usage.update(Q, Usage(messages=8))
    client.publish(Q, b"2")
    usage.update(Q, Usage())
    client.publish(Q, b"3")


def test_a_limit_of_the_cluster_counts_the_bytes_of_others() -> None:
    stage = stage_with(scope=CLUSTER, max_bytes=10, limit_behavior=REJECT_NEWEST)
    stage.broker.cluster_usage.update(Q, Usage(messages=1, bytes=8))
    client = stage.client()
    client.publish(Q, b"12")
    with pytest.raises(Refused, match="queue-full"):
        client.publish(Q, b"3")


@pytest.mark.parametrize("address", [Q, T])
def test_a_limit_of_the_cluster_counts_the_producers_of_others(address: str) -> None:
    stage = stage_with(address, scope=CLUSTER, max_producers=2)
    stage.broker.cluster_usage.update(address, Usage(producers=1))
    first, second = stage.client(), stage.client()
    first.publish(address)
    with pytest.raises(Refused, match=r"too-many: .* has 2 producers in the cluster, its maximum"):
        second.publish(address)
    first.publish(address)
    stage.broker.cluster_usage.update(address, Usage())
    second.publish(address)


def test_a_blocked_message_is_admitted_when_others_hold_less() -> None:
    stage = stage_with(scope=CLUSTER, max_messages=2, limit_behavior=FLOW_CONTROL)
    stage.broker.cluster_usage.update(Q, Usage(messages=2))
    client = stage.client()
    stage.decide(client.sending(Q, b"1"))
    assert waiting(stage) == []
    stage.broker.cluster_usage.update(Q, Usage(messages=1))
    stage.pass_time(1_000)
    assert waiting(stage) == [b"1"]


def test_each_broker_keeps_its_newest_messages_where_older_ones_make_room() -> None:
    stage = stage_with(scope=CLUSTER, max_messages=9, limit_behavior=REMOVE_OLDEST, use_dead_letters=False)
    client = stage.client()
    for number in range(9):
        client.publish(Q, b"%d" % number)
    stage.broker.cluster_usage.update(Q, Usage(messages=2))
    stage.pass_time(1_000)
    assert waiting(stage) == [b"%d" % number for number in range(2, 9)]
    stage.broker.cluster_usage.update(Q, Usage(messages=9))
    stage.pass_time(1_000)
    assert waiting(stage) == [b"6", b"7", b"8"], "a third of the limit, as there are three brokers"


def test_a_broker_reports_its_use_of_shared_limits() -> None:
    stage = stage_with(scope=CLUSTER, max_messages=5, max_bytes=100, max_producers=2)
    client = stage.client()
    client.publish(Q, b"123")
    client.publish("/queue/other", b"1")
    assert stage.broker.destination_limits.shared() == {Q: Usage(messages=1, bytes=3, producers=1)}
    assert stage_with(max_messages=5).broker.destination_limits.shared() == {}


@pytest.mark.parametrize("address", [Q, T])
def test_a_producer_that_has_gone_or_sends_no_more_is_reported_no_longer(address: str) -> None:
    """It is at another broker now, which would refuse it."""
    stage = stage_with(address, scope=CLUSTER, max_producers=3)

    def reported() -> int:
        return stage.broker.destination_limits.shared()[address].producers

    gone, idle, busy = stage.client(), stage.client(), stage.client()
    for client in (gone, idle, busy):
        client.publish(address)
    assert reported() == 3
    gone.disconnect()
    assert reported() == 2
    stage.pass_time(PRODUCER_MS - 1)
    busy.publish(address)
    stage.pass_time(1)
    assert reported() == 1
