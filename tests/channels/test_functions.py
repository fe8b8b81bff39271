"""Functions of libraries as handlers in the broker: reflexes of the kind `channel`, in real processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from broker_app.features.channels.channels import Channels
from broker_app.features.channels.content import CallOutcome, ChannelContent, joined
from broker_app.features.channels.functions import FunctionHandlers
from broker_app.features.channels.handlers import MOST_CALLS
from broker_app.features.channels.report import SiteReport
from broker_app.reflex.channel_call import ChannelCall, ResponseChannel
from broker_app.reflex.declaration import CHANNEL, Declaration, faults
from broker_app.reflex.functions import bound
from mom_client.channel_errors import EINVAL
from mom_client.channel_parts import MAX_PARTS
from tests.reflex.filtering_broker import FilteringBroker, reflex
from tests.support.awaiting import until
from tests.support.patience import patient

#: of an answer
MOST_BYTES = 100
LIBRARY = """
import os
import time

NOTES = {notes!r}
GATE = {gate!r}

def note(*words):
    with open(NOTES, "a") as file:
        print(*words, file=file)

def echo(channel, parts, need_response, options):
    note("called", channel.site, len(parts), need_response)
    channel.send_msg([options.get("prefix", "").encode() + part for part in parts])

def nothing(channel, parts, need_response):
    note("called")

def fails(channel, parts, need_response):
    if parts[0] == b"after the answer":
        channel.send_msg([b"answered"])
    raise KeyError("secret of the handler")

def waits(channel, parts, need_response):
    note("began", parts[0].decode())
    while not os.path.exists(GATE):
        time.sleep(0.005)
    channel.send_msg([b"re: " + parts[0]])

def ends(channel, parts, need_response):
    note("began", parts[0].decode())
    if parts[0] == b"kill":
        os._exit(3)
    channel.send_msg([b"re: " + parts[0]])
"""


class Site:
    """A site with the functions of one library as handlers."""

    def __init__(self, filtering: FilteringBroker) -> None:
        self.filtering = filtering
        self.channels = Channels(filtering.engine, "b1")
        filtering.reflexes.use_handlers = FunctionHandlers(self.channels, MOST_BYTES).use
        self.gate = filtering.folder / "gate"
        filtering.library("handlers", LIBRARY.format(notes=str(filtering.notes_file), gate=str(self.gate)))

    def declare(self, *functions: str, **facts: Any) -> None:
        """Have these functions as handlers."""
        self.filtering.declare(*(handler(function, **facts) for function in functions))

    def request(
        self, *parts: bytes, timeout_ms: int = 60_000, multiple: bool = False
    ) -> asyncio.Future[CallOutcome]:
        """The answer to a request of this site, to itself."""
        answer: asyncio.Future[CallOutcome] = asyncio.get_running_loop().create_future()
        self.channels.request("$master", joined(parts), timeout_ms, answer.set_result, multiple=multiple)
        return answer

    async def answer(self, *parts: bytes, multiple: bool = False) -> CallOutcome:
        async with asyncio.timeout(patient(10)):
            return await self.request(*parts, multiple=multiple)

    @property
    def report(self) -> SiteReport:
        (site,) = self.channels.report().sites
        return site

    @property
    def notes(self) -> list[str]:
        return self.filtering.notes


def handler(function: str, **facts: Any) -> Declaration:
    return reflex(CHANNEL, function, library="handlers", **facts)


@pytest.fixture
async def site(processes: None, tmp_path: Path) -> AsyncIterator[Site]:
    filtering = FilteringBroker(tmp_path)
    made = Site(filtering)
    yield made
    made.channels.stop()
    await filtering.stop()


async def test_a_function_answers_with_the_parts_that_it_sends(site: Site) -> None:
    site.declare("echo", options={"prefix": "re: "})
    assert await site.answer(b"a") == CallOutcome(content=ChannelContent(b"re: a"))
    assert await site.answer(b"a", b"", multiple=True) == CallOutcome(
        content=ChannelContent(b"re: are: ", "5,4")
    )
    assert (await site.answer(multiple=True)).content.parts() == []
    assert site.notes == ["called b1 1 True", "called b1 2 True", "called b1 0 True"]
    assert (site.report.handlers, site.report.functions) == (1, ["echo"])
    (row,) = site.filtering.reflexes.report()
    assert (row["kind"], row["calls"], row["failures"]) == ("channel", 3, 0)
    too_large = await site.answer(bytes(MOST_BYTES))
    assert (too_large.status, too_large.reason) == ("keyempty", "the answer of reflex echo cannot be sent")
    (row,) = site.filtering.reflexes.report()
    assert "104 bytes; a message has at most 100" in row["last_failure"]


async def test_a_function_that_returns_nothing_or_fails_leaves_the_request_without_an_answer(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.declare("nothing")
    answer = await site.answer(b"?")
    assert (answer.status, answer.reason) == ("keyempty", "reflex nothing has returned without an answer")
    site.declare("fails")
    for _ in range(5):
        answer = await site.answer(b"?")
        assert (answer.status, answer.reason) == ("keyempty", "reflex fails has failed without an answer")
    assert (await site.answer(b"after the answer")).content.body == b"answered"
    assert site.report.failed == {"keyempty": 6}
    warnings = [line for line in caplog.messages if line.startswith("channel reflex fails")]
    assert len(warnings) == 1, "each failure was logged"
    assert "KeyError: 'secret of the handler'" in warnings[0]
    (row,) = site.filtering.reflexes.report()
    assert (row["failures"], row["failures_in_row"]) == (6, 6)


async def test_a_function_sends_a_message_back_to_a_site_that_asked_for_no_answer(site: Site) -> None:
    site.declare("echo", "nothing")
    site.channels.send("b1", joined([b"a", b"b"]))  # the answer is the next one's in turn
    await until(lambda: len(site.notes) == 2)
    assert site.notes == ["called b1 2 False", "called"]
    assert site.report.received == 2


async def test_a_function_that_does_not_return_has_its_process_replaced_and_no_call_is_made_twice(
    site: Site,
) -> None:
    site.declare("waits", time_limit_s=patient(0.3))
    first, second = site.request(b"1"), site.request(b"2")
    first.add_done_callback(lambda _: site.gate.touch())
    answer = await asyncio.wait_for(first, patient(10))
    assert (answer.status, answer.reason) == (
        "rep-unavail", "reflex waits has failed: the outcome is unknown"
    )  # fmt: skip
    assert (await asyncio.wait_for(second, patient(10))).content.body == b"re: 2"
    assert site.notes == ["began 1", "began 2"]


async def test_a_call_is_not_made_again_when_an_operator_restarts_its_library(site: Site) -> None:
    site.declare("waits", time_limit_s=60.0)
    first, second = site.request(b"1"), site.request(b"2")
    await until(lambda: site.notes == ["began 1"])
    assert site.filtering.reflexes.restart("handlers")
    assert (await asyncio.wait_for(first, patient(10))).status == "rep-unavail"
    site.gate.touch()
    assert (await asyncio.wait_for(second, patient(10))).content.body == b"re: 2"
    assert site.notes == ["began 1", "began 2"]


async def test_a_process_that_ends_fails_the_call_that_it_worked_on_alone(site: Site) -> None:
    site.declare("ends")
    answers = [site.request(word) for word in (b"1", b"kill", b"2")]
    found = await asyncio.wait_for(asyncio.gather(*answers), patient(10))
    assert [answer.status for answer in found] == ["ok", "rep-unavail", "ok"]
    assert site.notes == ["began 1", "began kill", "began 2"]


async def test_a_request_whose_time_passes_meanwhile_is_over_and_its_answer_reaches_no_other(
    site: Site,
) -> None:
    site.declare("waits", time_limit_s=60.0)
    late = site.request(b"late", timeout_ms=100)
    assert (await asyncio.wait_for(late, patient(10))).status == "timeout"
    in_time = site.request(b"in time")
    site.gate.touch()
    assert (await asyncio.wait_for(in_time, patient(10))).content.body == b"re: in time"
    assert site.report.dropped == {"late": 1}


async def test_a_function_has_a_bounded_number_of_calls_although_their_time_passes(site: Site) -> None:
    site.declare("waits", time_limit_s=60.0)
    waiting = [site.request(b"%d" % number, timeout_ms=50) for number in range(MOST_CALLS)]
    assert {(await one).status for one in waiting} == {"timeout"}
    busy = await site.answer(b"one more")
    assert (busy.status, "busy" in busy.reason) == ("rep-unavail", True)
    site.channels.send("b1", joined([b"a message"]))
    assert site.report.dropped == {"busy": 1}
    site.gate.touch()
    await until(lambda: site.report.dropped == {"busy": 1, "late": MOST_CALLS})
    assert (await site.answer(b"again")).content.body == b"re: again"


async def test_functions_take_turns_and_leave_when_they_are_declared_no_longer(site: Site) -> None:
    site.declare("echo", "waits")
    waiting = [site.request(b"a"), site.request(b"b")]
    assert (await waiting[0]).content.body == b"a"
    await until(lambda: "began b" in site.notes)
    site.declare("echo")
    assert (await waiting[1]).status == "rep-unavail"
    assert (site.report.handlers, site.report.functions) == (1, ["echo"])
    assert (await site.answer(b"c")).content.body == b"c"
    site.declare()
    assert (await site.answer(b"?")).status == "noserver"
    site.gate.touch()


def test_a_channel_in_the_broker_refuses_what_that_of_an_application_refuses() -> None:
    channel = ResponseChannel("b1", need_response=True, multiple=False)

    def function(of: ResponseChannel, parts: list[bytes], need_response: bool) -> None:
        assert (of, parts, need_response) == (channel, [b"?"], True)
        refused: list[tuple[Callable[[], None], str]] = [
            (lambda: of.send_msg([b""] * (MAX_PARTS + 1)), f"{MAX_PARTS} parts, not {MAX_PARTS + 1}"),
            (lambda: of.send_msg([b"a", b"b"]), "the answer has 2 parts, and one was asked for"),
            (lambda: of.send_msg([b"again"]), "answered before"),
            (of.close, "does not close"),
            (lambda: of.set_timeout(1), "no time limit"),
            (lambda: of.send_request([b"?"]), "sends no requests"),
        ]
        for call, why in refused:
            with pytest.raises(EINVAL, match=why):
                call()

    bound(CHANNEL, function)(ChannelCall(channel, [b"?"], True), {})
    assert (channel.is_too_small, channel.answer) == (True, None)
    with pytest.raises(EINVAL, match="has returned"):
        channel.send_msg([b"late"])


def test_a_handler_is_a_plain_function_of_three_or_four_arguments() -> None:
    async def later(channel: Any, parts: Any, need_response: Any) -> None: ...
    def too_few(channel: Any, parts: Any) -> None: ...
    def too_many(a: Any, b: Any, c: Any, d: Any, e: Any) -> None: ...

    for function, why in ((later, "a coroutine function"), (too_few, "3 to 4"), (too_many, "3 to 4")):
        with pytest.raises(TypeError, match=why):
            bound(CHANNEL, function)


@pytest.mark.parametrize(
    ("member", "value"), [("service", "b*"), ("event", "order.*"), ("on_failure", "accept")]
)
def test_a_handler_has_no_patterns_and_no_other_failure(member: str, value: str) -> None:
    spec = {
        "kind": CHANNEL, "library": "l", "function": "f", "service": "*", "event": "*",
        "on_failure": "refuse", "time_limit_s": 1.0,
    }  # fmt: skip
    assert faults(spec) == {}
    assert list(faults({**spec, member: value})) == [member]
