"""Questions of one broker to another about messages that wait there: bounded in time, number and form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.features.cluster import pages
from broker_app.features.cluster.cluster import Cluster
from broker_app.features.cluster.destination_pages import (
    BrokerDestination,
    DestinationsPage,
    DestinationsQuestion,
)
from broker_app.features.cluster.links.link import Link
from broker_app.features.cluster.message_reasons import MessageReason, MessageReasons, ReasonsQuestion
from broker_app.features.cluster.pages import BrowsedMessage, BrowsedPage, PageQuestion
from broker_app.net.rest.messages import merged_pages
from tests.cluster.test_links import two_clusters
from tests.support.awaiting import until

QUESTION = PageQuestion(address="/queue/orders", limit=10)


def row(number: int, *, time_ms: int = 1, **facts: Any) -> BrowsedMessage:
    of_all: dict[str, Any] = {
        "id": b"id-%d" % number,
        "cursor": (4, number),
        "position": number,
        "time_ms": time_ms,
        "expires_ms": 0,
        "due_ms": 0,
        "state": "ready",
        "attempts": 0,
        "persistent": True,
        "priority": 4,
        "size": 1,
        "address": "/queue/orders",
        "block": b"a:b\n",
        "body": b"x",
    }
    return BrowsedMessage(**of_all | facts)


def page(*rows: BrowsedMessage, following: tuple[int, int] | None = None) -> BrowsedPage:
    return BrowsedPage(
        rows=list(rows), next=following, total=len(rows), scanned=len(rows), stopped=False, tag=7
    )


@pytest.fixture
async def linked() -> AsyncIterator[tuple[Cluster, Cluster]]:
    """Two brokers that are linked; the second answers with one message."""
    async with two_clusters() as ((_, first), (_, second)):
        second.pages.browse = _one
        await until(lambda: first.pages.linked() and second.pages.linked())
        yield first, second


async def _one(_: PageQuestion) -> BrowsedPage:
    return page(row(1))


async def test_a_page_crosses_as_it_is_and_a_large_one_in_pieces(linked: tuple[Cluster, Cluster]) -> None:
    first, second = linked
    assert await first.pages.ask("b2", QUESTION) == page(row(1))
    large = page(row(1, body=b"x" * 700_000, size=700_000), row(2), following=(4, 2))
    asked: list[PageQuestion] = []

    async def answer(question: PageQuestion) -> BrowsedPage:
        asked.append(question)
        return large

    second.pages.browse = answer
    question = PageQuestion(address="/queue/orders", limit=2, after=(9, 1), tag=7, where='{"q":"x"}')
    assert await first.pages.ask("b2", question) == large
    assert asked == [question]


async def test_a_broker_that_is_silent_refuses_or_is_gone_is_not_waited_for(
    linked: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = linked
    silent = asyncio.Event()

    async def wait(_: PageQuestion) -> BrowsedPage:
        await silent.wait()
        return page()

    second.pages.browse = wait
    monkeypatch.setattr(pages, "ANSWER_S", 0.01)
    with pytest.raises(Refused, match="has not answered") as refused:
        await first.pages.ask("b2", QUESTION)
    assert refused.value.code == "timeout"
    monkeypatch.setattr(pages, "ANSWER_S", 60.0)
    waiting = [asyncio.ensure_future(first.pages.ask("b2", QUESTION)) for _ in range(8)]
    # The one that was given up is still being answered: one of these is too many.
    done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    (busy,) = done
    with pytest.raises(Refused, match="it answers as many questions as it may at a time"):
        await busy
    for link in first.members.links():
        link.close(Refused("test", "the link is cut"))
    for one in rest:
        with pytest.raises(Refused, match="b2 is not linked"):
            await one


@pytest.mark.parametrize("address", ["/topic/orders", "/queue/$mom.secret", "/temp-queue/x"])
async def test_only_queues_that_others_may_see_are_shown(
    linked: tuple[Cluster, Cluster], address: str
) -> None:
    with pytest.raises(Refused, match="no queue that other brokers can browse"):
        await linked[0].pages.ask("b2", PageQuestion(address=address, limit=1))


@pytest.mark.parametrize(
    "wrong", [{"block": b"a:b\n\nbody\0MESSAGE\n"}, {"id": b"two\nlines"}, {"priority": 12}]
)
async def test_a_page_that_no_broker_sends_ends_the_link(
    linked: tuple[Cluster, Cluster], wrong: dict[str, Any]
) -> None:
    first, second = linked

    async def answer(_: PageQuestion) -> BrowsedPage:
        return page(row(1, **wrong))

    second.pages.browse = answer
    ends: list[str] = []
    ended = first.ended

    def note(link: Link, reason: Refused) -> None:
        ends.append(reason.code)
        ended(link, reason)

    first.ended = note  # type: ignore[method-assign]
    with pytest.raises(Refused):
        await first.pages.ask("b2", QUESTION)
    assert ends == ["protocol-error"]


def use(address: str, **facts: Any) -> BrokerDestination:
    limits = {"max_messages": 5, "max_bytes": 0, "max_producers": 0, "scope": "broker"}
    return BrokerDestination(
        **{"address": address, "depth": 3, "unsettled": 1, "consumers": 2, **limits, **facts}
    )


async def test_destinations_cross_as_they_are_or_are_refused(linked: tuple[Cluster, Cluster]) -> None:
    first, second = linked
    question = DestinationsQuestion(limit=500, after="x", q="a b", address="/queue/a")
    with pytest.raises(Refused, match="does not show its destinations"):
        await first.pages.ask_destinations("b2", question)
    asked: list[DestinationsQuestion] = []
    many = DestinationsPage(rows=[use(f"/queue/{one:0>1000}") for one in range(500)], more=True, total=900)

    async def answer(question: DestinationsQuestion) -> DestinationsPage:
        asked.append(question)
        return many

    second.pages.list_destinations = answer
    assert await first.pages.ask_destinations("b2", question) == many
    assert asked == [question]


@pytest.mark.parametrize("wrong", [{"depth": -1}, {"address": ""}, {"scope": "x" * 50}])
async def test_destinations_that_no_broker_sends_end_the_link(
    linked: tuple[Cluster, Cluster], wrong: dict[str, Any]
) -> None:
    first, second = linked

    async def answer(_: DestinationsQuestion) -> DestinationsPage:
        return DestinationsPage(rows=[use(**{"address": "/queue/a"} | wrong)], more=False, total=1)

    second.pages.list_destinations = answer
    with pytest.raises(Refused, match="b2 is not linked"):
        await first.pages.ask_destinations("b2", DestinationsQuestion(limit=1))


def reasons(**facts: Any) -> MessageReasons:
    told: dict[str, Any] = {"credit": 3, "user": None, "headers": {"a": "b"}, "brokers": {"b2": 1}}
    found: dict[str, Any] = {
        "address": "/queue/a",
        "state": "ready",
        "sent_to": "/topic/a",
        "block": b"a:b\n",
        "reasons": [MessageReason(code="no-credit", sentence="it waits", facts=told)],
    }
    return MessageReasons(**found | facts)


async def test_reasons_for_a_message_cross_as_they_are_or_are_refused(
    linked: tuple[Cluster, Cluster],
) -> None:
    first, second = linked
    question = ReasonsQuestion(id="id-1", address="/queue/a")
    with pytest.raises(Refused, match="does not explain its messages"):
        await first.pages.ask_reasons("b2", question)
    asked: list[ReasonsQuestion] = []

    async def answer(question: ReasonsQuestion) -> MessageReasons:
        asked.append(question)
        return reasons()

    second.pages.explain = answer
    anywhere = ReasonsQuestion(id="id-1")
    for one in (question, anywhere):
        assert await first.pages.ask_reasons("b2", one) == reasons()
    assert asked == [question, anywhere]
    with pytest.raises(Refused, match="no queue that other brokers can browse"):
        await first.pages.ask_reasons("b2", ReasonsQuestion(id="id-1", address="/queue/$mom.secret"))


@pytest.mark.parametrize(
    "wrong", [{"block": b"a:b\n\nbody\0MESSAGE\n"}, {"address": "/topic/a"}, {"reasons": [("code", 1, {})]}]
)
async def test_reasons_that_no_broker_sends_end_the_link(
    linked: tuple[Cluster, Cluster], wrong: dict[str, Any]
) -> None:
    first, second = linked

    async def answer(_: ReasonsQuestion) -> MessageReasons:
        return reasons(**wrong)

    second.pages.explain = answer
    with pytest.raises(Refused, match="b2 is not linked"):
        await first.pages.ask_reasons("b2", ReasonsQuestion(id="id-1"))


class Others:
    """Other brokers with these messages; a page has as many as are asked for."""

    name = "b1"

    def __init__(self, **rows: list[BrowsedMessage]) -> None:
        self._rows = rows
        self.gone: set[str] = set()

    def others(self) -> list[str]:
        return [name for name in self._rows if name != self.name]

    def linked(self) -> list[str]:
        return [name for name in self.others() if name not in self.gone]

    async def own(self, question: PageQuestion) -> BrowsedPage:
        return await self.ask(self.name, question)

    async def ask(self, broker: str, question: PageQuestion) -> BrowsedPage:
        if broker not in self._rows or broker in self.gone:
            raise Refused("unreachable", "it is gone")
        left = [one for one in self._rows[broker] if question.after is None or one.cursor > question.after]
        shown = left[: question.limit]
        return page(*shown, following=shown[-1].cursor if len(left) > len(shown) else None)


async def read(others: Others, after: str | None = None, limit: int = 2, most_bytes: int = 100) -> Any:
    question = PageQuestion(address="/queue/orders", limit=limit)
    return await merged_pages.read(question, after, others.own, others, most_bytes)  # type: ignore[arg-type]


async def test_pages_have_all_messages_once_by_time_and_end_at_their_bounds() -> None:
    others = Others(
        b1=[row(1, time_ms=1), row(2, time_ms=5), row(3, time_ms=6)],
        b2=[row(1, time_ms=2), row(2, time_ms=3), row(3, time_ms=4)],
    )
    for bounds in ({"limit": 1}, {"limit": 2}, {"limit": 5}, {"most_bytes": 1}):
        found, after = [], None
        while True:
            shown = await read(others, after, **bounds)
            found += [(broker, one.time_ms) for broker, one in shown.rows]
            if (after := shown.facts["next"]) is None:
                break
        assert found == [("b1", 1), ("b2", 2), ("b2", 3), ("b2", 4), ("b1", 5), ("b1", 6)]


async def test_a_broker_that_goes_between_two_pages_is_named_and_a_cursor_cannot_be_made_up() -> None:
    others = Others(b1=[row(1)], b2=[row(1), row(2)])
    shown = await read(others)
    others.gone.add("b2")
    rest = await read(others, shown.facts["next"])
    assert (rest.rows, rest.facts["next"], rest.facts["not_shown"]) == ([], None, ["b2"])
    for wrong in ("", "x", "m.x", "m.gaJiM5P_AAE", "gaJiM8A"):
        with pytest.raises(Refused, match="not a cursor"):
            await read(others, wrong)
