"""The page of mirrors, with a fake node."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from broker_app.base.refused import Refused
from broker_app.base.reply_types import Facts
from broker_app.node.operations import Operations
from broker_app.templatetags.console_assets import icon
from broker_app.web.console.base.lag_chart import lag_chart
from tests.support.answering_node import answering
from tests.support.no_alerts import NO_ALERTS

pytestmark = pytest.mark.django_db


def a_broker(broker_id: str, **facts: Any) -> dict[str, Any]:
    return {
        "id": broker_id, "role": 1, "state": "active", "web": f"http://{broker_id}",
        "uris": [f"stomp://{broker_id}"], "position": 120, "lag_records": 0, "lags": [], "lag_s": 0.0,
        "in_step": True, "seen_s": 0.2, **facts,
    }  # fmt: skip


def a_standby(**facts: Any) -> dict[str, Any]:
    return a_broker("b2:8000", **{"role": -1, "state": "standby", "lag_s": 0.1, **facts})


def a_takeover(epoch: int, cause: str, **facts: Any) -> dict[str, Any]:
    return {
        "epoch": epoch, "at": "2026-01-31T12:00:00.000Z", "cause": cause, "broker": "b1:8000", "role": 1,
        "former": "b2:8000", "position": 100, "took_s": 0.346, "non_persistent_lost": 0, "records_lost": 0,
        "reason": "", "detail": "", **facts,
    }  # fmt: skip


def a_status(*brokers: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {
        "name": "B1", "id": "b1:8000", "role": 1, "state": "active", "health": "running",
        "journal": "PostgreSQL at db",
        "lease_s": 3.0, "lease": {"holder": "b1:8000", "epoch": 3, "left_s": 2.6},
        "brokers": list(brokers), "would_be_lost": {"persistent": 0, "non_persistent": 0},
        "successor": None, "takeovers": [], "private_journal": None, "configuration": "sealed",
        "pause": None, **facts,
    }  # fmt: skip


class AConsoleList:
    """A mirror of which only the consoles are asked."""

    consoles = ("http://b1:8000", "http://b2:8000")


class AnsweringNode:
    """A node with the mirrors of one test."""

    stomp_port = 61613
    alerts = NO_ALERTS
    mirror: AConsoleList | None = None
    cluster_consoles = list

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.operations = self
        self.status: dict[str, Any] | None = None
        self.refusal: Refused | None = None

    async def mirror_status(self) -> dict[str, Any] | None:
        if self.refusal is not None:
            raise self.refusal
        return self.status


@pytest.fixture
def node() -> Iterator[AnsweringNode]:
    with answering(AnsweringNode) as made:
        yield made


def page_of(inside: Client) -> str:
    reply = inside.get("/console/mirrors/")
    assert reply.status_code == 200
    return " ".join(reply.content.decode().split())


def test_the_page_shows_the_holder_the_lag_and_the_order(inside: Client, node: AnsweringNode) -> None:
    node.status = a_status(
        a_broker("b1:8000"), a_standby(lag_records=17), takeovers=[a_takeover(3, "lease-expired")]
    )
    page = page_of(inside)
    for text in ("PostgreSQL at db", "this broker", "2.6 s", "0.4 s ago", "2026-01-31 12:00:00 UTC"):
        assert text in page, text
    assert 'class="num">17<' in page
    assert '<mom-switchover-button broker="B1" from="b1:8000" to="b2:8000">' in page
    assert page.count("<mom-switchover-button") == 1, "the active broker cannot be switched over to"
    assert "<b>b2:8000</b> would take over when the lease ends, after at most 3.0 s." in page
    assert "mom mirror takeover --reason &#x27;…&#x27; --url http://b2:8000" in page or (
        "mom mirror takeover --reason '…' --url http://b2:8000" in page
    )


def test_the_lag_of_standbys_is_drawn_over_time(inside: Client, node: AnsweringNode) -> None:
    node.status = a_status(a_broker("b1:8000"), a_standby(lags=[0, 40, 17]))
    assert '<mom-chart heading="Records behind, last half hour"' in page_of(inside)
    node.status = a_status(a_broker("b1:8000"), a_standby(lags=[17]))
    assert "<mom-chart" not in page_of(inside), "one sample is no line"


def test_samples_of_lags_end_now_and_shorter_ones_begin_later() -> None:
    chart = lag_chart({"b2": [0, 40, 17], "b3": [5]}, now_s=1_000.0)
    assert chart is not None
    series = {"b2": [0, 40, 17], "b3": [None, None, 5]}
    assert json.loads(chart.columns) == {"t0": 960, "step_s": 15, "series": series}
    assert [(line["key"], line["dashed"]) for line in json.loads(chart.lines)] == [
        ("b2", False),
        ("b3", True),
    ]
    assert lag_chart({}) is None


def test_a_broker_without_a_standby_is_not_green(inside: Client, node: AnsweringNode) -> None:
    badge = 'class="state" data-tone="{}">{} {}</span> <b>b1:8000</b>'
    node.status = a_status(a_broker("b1:8000"), a_standby())
    assert badge.format("good", icon("circle-check"), "running · active") in page_of(inside)
    node.status = a_status(a_broker("b1:8000"), health="degraded")
    assert badge.format("warn", icon("triangle-alert"), "degraded · active") in page_of(inside)


def test_the_page_shows_that_takeovers_are_paused(inside: Client, node: AnsweringNode) -> None:
    paused = {"left_s": 600.0, "reason": "a new disk", "user": "anna"}
    node.status = a_status(a_broker("b1:8000"), a_standby(), pause=paused)
    page = page_of(inside)
    for text in ("anna has paused takeovers for 10 min more.", "Reason: a new disk", "mom mirror resume"):
        assert text in page, text
    assert "No standby would take over: takeovers are paused." in page
    assert "would take over when the lease ends" not in page


def test_the_page_shows_the_private_journal(inside: Client, node: AnsweringNode) -> None:
    private = {"place": "directory /b1/private", "state": "copying", "pending_frames": 3, "error": ""}
    node.status = a_status(a_broker("b1:8000"), private_journal=private)
    page = page_of(inside)
    assert "directory /b1/private" in page and "3 batches to be copied" in page and "being copied" in page
    private |= {"state": "failed", "pending_frames": 0, "error": "no space left"}
    page = page_of(inside)
    assert "not written" in page and "no space left" in page and "to be copied" not in page


def test_the_page_shows_whether_the_configuration_is_sealed(inside: Client, node: AnsweringNode) -> None:
    node.status = a_status(a_broker("b1:8000"))
    page = page_of(inside)
    assert "sealed" in page
    assert "MOM_SECRET_KEY_FILE" not in page
    node.status = a_status(a_broker("b1:8000"), configuration="readable in the store")
    page = page_of(inside)
    assert "readable in the store" in page
    assert "Each reader of the store of the journal has the secret key" in page
    assert "Set MOM_SECRET_KEY_FILE" in page


def test_the_page_has_the_addresses_of_all_consoles(inside: Client, node: AnsweringNode) -> None:
    """It goes to one of them after a switch-over."""
    node.status = a_status(a_broker("b1:8000"), a_standby())
    node.mirror = AConsoleList()
    assert 'data-mirrors="http://b1:8000 http://b2:8000"' in page_of(inside)


def test_the_page_states_what_would_be_lost_now(inside: Client, node: AnsweringNode) -> None:
    nothing = "No persistent message that was confirmed would be lost"
    for number, text in (
        (0, "No non-persistent message waits now."),
        (1, "About 1 non-persistent message would be lost"),
        (12, "About 12 non-persistent messages would be lost"),
        (None, "their number is not known"),
    ):
        lost = {"persistent": 0, "non_persistent": number}
        node.status = a_status(a_broker("b1:8000"), a_standby(), would_be_lost=lost)
        page = page_of(inside)
        assert nothing in page and text in page, number


def test_the_loss_of_a_forced_takeover_stays_above_the_page(inside: Client, node: AnsweringNode) -> None:
    forced = a_takeover(3, "forced", non_persistent_lost=7, reason="the <network> of b2 is down")
    node.status = a_status(a_broker("b1:8000"), takeovers=[forced, a_takeover(2, "switchover")])
    page = page_of(inside)
    assert "The last takeover was forced." in page
    assert page.count("about 7 non-persistent messages.") == 2, "in the notice and in the timeline"
    assert "the &lt;network&gt; of b2 is down" in page
    assert "within 0.35 s" in page

    node.status = a_status(a_broker("b1:8000"), takeovers=[a_takeover(3, "switchover"), forced])
    assert "The last takeover was forced." not in page_of(inside), "another one followed"


def test_records_that_the_store_has_lost_are_named(inside: Client, node: AnsweringNode) -> None:
    node.status = a_status(a_broker("b1:8000"), takeovers=[a_takeover(3, "lease-expired", records_lost=4)])
    page = page_of(inside)
    assert "4 records that were confirmed are lost." in page
    assert "Lost: 4 records of the journal" in page and "Lost: no persistent message" not in page


def test_the_timeline_has_causes_and_the_first_start(inside: Client, node: AnsweringNode) -> None:
    causes = ("forced", "lease-expired", "switchover", "stopped", "started")
    past = [a_takeover(3 - number, cause) for number, cause in enumerate(causes)]
    past[0] = a_takeover(4, "switchover", non_persistent_lost=None)
    node.status = a_status(a_broker("b1:8000"), takeovers=past)
    page = page_of(inside)
    for label in ("lease expired", "switch-over", "clean stop", "started"):
        assert f"</svg> {label}</span>" in page, label
    assert "the number of non-persistent messages is not known." in page
    assert "<b>b1:8000</b> serves, epoch -1." in page


def test_missing_and_slow_standbys_are_warned_of(inside: Client, node: AnsweringNode) -> None:
    node.status = a_status(a_broker("b1:8000"), a_broker("b2:8000", state="unreachable", seen_s=90.0))
    page = page_of(inside)
    assert "There is no standby." in page and "not reachable" in page and "1 min 30 s ago" in page
    node.status = a_status(a_broker("b1:8000"), a_standby(in_step=False, lag_s=12.0), successor="b2:8000")
    page = page_of(inside)
    assert "No standby is in step." in page and "standby, behind" in page
    assert "A switch-over to b2:8000 was ordered." in page


def test_a_member_of_an_enhanced_cluster_needs_no_standby(
    inside: Client, node: AnsweringNode, settings: Any
) -> None:
    settings.MOM = replace(settings.MOM, cluster_id="shop")
    node.status = a_status(a_broker("b1:8000"))
    page = page_of(inside)
    assert "another member of the enhanced cluster shop serves its journal" in page
    assert "There is no standby." not in page


def test_without_a_shared_journal_the_page_explains_mirrors(inside: Client, node: AnsweringNode) -> None:
    page = page_of(inside)
    assert "This broker has no mirrors" in page and "--role -1 --journal postgresql://" in page


def test_an_unknown_status_is_reported(inside: Client, node: AnsweringNode) -> None:
    node.refusal = Refused("busy", "the node has not answered in time")
    assert "the node has not answered in time" in page_of(inside)


def test_without_a_node_the_page_reports_that(inside: Client) -> None:
    assert "does not know the mirrors" in page_of(inside)


class UnreachableMirror:
    """A mirror whose journal cannot be reached."""

    async def refresh(self) -> None:
        raise Refused("store-unavailable", "the journal cannot be reached now")

    def status(self) -> dict[str, Any]:
        return a_status(takeovers=[a_takeover(3, "started")])


def test_takeovers_read_before_are_shown_while_the_journal_cannot_be_reached() -> None:
    found = mirror_status(UnreachableMirror())
    assert found is not None and found["takeovers"]
    assert mirror_status(None) is None


def mirror_status(mirror: UnreachableMirror | None) -> Facts | None:
    features: Any = SimpleNamespace(mirrors=SimpleNamespace(mirror=mirror))
    unused: Any = None
    return asyncio.run(Operations(unused, features, unused, unused).mirror_status())
