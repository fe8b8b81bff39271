"""The page of message channels, with a node that has the report of one test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from django.test import Client

from broker_app.features.channels.report import ChannelReport, SiteReport
from tests.support.answering_node import answering
from tests.support.no_alerts import NO_ALERTS

pytestmark = pytest.mark.django_db


class AnsweringNode:
    """A node with the sites of one test."""

    stomp_port = 61613
    alerts = NO_ALERTS
    mirror = None
    cluster_consoles = list

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.operations = self
        self.report = ChannelReport(
            site="b1",
            master="b1",
            sites=[SiteReport(name="b1", is_here=True, is_master=True, linked=True, handlers=0)],
        )

    async def channel_report(self) -> ChannelReport:
        return self.report


@pytest.fixture
def node() -> Iterator[AnsweringNode]:
    with answering(AnsweringNode) as made:
        yield made


def page_of(inside: Client) -> str:
    reply = inside.get("/console/channels/")
    assert reply.status_code == 200
    return " ".join(reply.content.decode().split())


def test_a_site_without_a_handler_shows_how_one_is_started(inside: Client, node: AnsweringNode) -> None:
    page = page_of(inside)
    assert "No application at this site has a handler" in page
    assert "mom channel serve" in page


def test_sites_are_shown_with_what_was_dropped_and_why(inside: Client, node: AnsweringNode) -> None:
    there = SiteReport(
        name="b2", is_here=False, is_master=True, linked=False, in_flight=3, sent=12, received=4,
        dropped={"late": 2}, failed={"timeout": 1, "rep-unavail": 5}, round_trip_ms=1.25,
    )  # fmt: skip
    here = SiteReport(
        name="b1", is_here=True, is_master=False, linked=True, handlers=2, functions=["my prices"]
    )
    node.report = ChannelReport(site="b1", master="b2", sites=[here, there])
    page = page_of(inside)
    for shown in (
        'title="a function in the broker"><a href="/console/reflexes/one?name=my%20prices">my prices</a>',
        "this broker",
        "master",
        "not linked",
        "answer came too late",
        "no answer in time",
        "1.3 ms",
    ):
        assert shown in page, shown
    assert "has a handler" not in page


def test_without_a_master_the_page_says_so(inside: Client, node: AnsweringNode) -> None:
    node.report = ChannelReport(site="b1", master="", sites=node.report.sites)
    assert "There is no master now" in page_of(inside)
