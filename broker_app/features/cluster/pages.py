"""Messages and destinations at the brokers of a cluster, a page at a time: asked of another broker, and
answered.

A question concerns the messages that wait in one queue, one of them, or the destinations. Each broker answers
for what it owns; the rights of who asks are checked by the broker of that client.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from broker_app.base.internal_errors import internal_errors
from broker_app.base.process.task_supervisor import TaskSupervisor
from broker_app.base.refused import Refused
from broker_app.core.destination import QUEUE, is_reserved, parse
from broker_app.core.message import Envelope, Message
from broker_app.features.cluster.destination_pages import DestinationsPage, DestinationsQuestion
from broker_app.features.cluster.links import frames as f
from broker_app.features.cluster.links.link import Link
from broker_app.features.cluster.links.members import Members
from broker_app.features.cluster.links.message_checks import check_block, check_ids
from broker_app.features.cluster.message_reasons import MessageReasons, ReasonsQuestion

#: messages of a page, and bytes of its bodies, beyond which it has no further one
MOST_ROWS: Final = 500
MOST_BYTES: Final = 1 * f.MIB
#: seconds in which another broker has to answer
ANSWER_S: Final = 5.0
#: questions of one broker that are answered at a time
_MOST_QUESTIONS: Final = 8
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Time = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]
State = Literal["ready", "unsettled", "delayed"]

#: the (priority, position) of the last message of a page, or of delayed ones the (time, position)
Cursor = tuple[_Count, _Count]


class PageQuestion(msgspec.Struct, array_like=True, frozen=True, kw_only=True, tag=True):
    """Asks for messages of the queue `address` behind the cursor `after`, which is one of the journal with
    the `tag`. `where` is a filter in JSON, empty for all messages. Of each body come `body_bytes` at most."""

    address: str
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)]
    after: Cursor | None = None
    tag: int = 0
    state: State | None = None
    backwards: bool = False
    where: str = ""
    body_bytes: _Count = 1 << 62


class BrowsedMessage(msgspec.Struct, array_like=True, gc=False, kw_only=True):
    """A message as browsing shows it; `size` is that of its whole body, `cursor` the one behind it."""

    id: Annotated[bytes, msgspec.Meta(min_length=1, max_length=200)]
    cursor: Cursor
    position: _Count
    time_ms: _Time
    expires_ms: _Time
    due_ms: _Time
    state: State
    attempts: _Count
    persistent: bool
    priority: Annotated[int, msgspec.Meta(ge=0, le=9)]
    size: _Count
    address: str
    block: bytes
    body: bytes

    def message(self, lines: bytes = b"") -> Message:
        """The message, to be rendered, with `lines` as further headers."""
        envelope = Envelope(
            self.address, self.block + lines, persistent=self.persistent, priority=self.priority
        )
        message = Message(envelope, self.body, self.position, self.time_ms, recorded=False)
        message.explicit_id, message.attempts, message.expires_ms = self.id, self.attempts, self.expires_ms
        return message


class BrowsedPage(msgspec.Struct, array_like=True, kw_only=True):
    """The answer: messages in order, and where the next page begins, None at the end. `scanned` messages were
    looked at; `stopped`: as many as a page may. `tag` is that of the journal."""

    rows: Annotated[list[BrowsedMessage], msgspec.Meta(max_length=MOST_ROWS)]
    next: Cursor | None
    total: _Count
    scanned: _Count
    stopped: bool
    tag: int


_Question = PageQuestion | DestinationsQuestion | ReasonsQuestion
_Answer = BrowsedPage | DestinationsPage | MessageReasons
_encode = msgspec.msgpack.encode
_questions: msgspec.msgpack.Decoder[_Question] = msgspec.msgpack.Decoder(_Question)
_browsed = msgspec.msgpack.Decoder(BrowsedPage)
_destinations = msgspec.msgpack.Decoder(DestinationsPage)
_reasons = msgspec.msgpack.Decoder(MessageReasons)


class _Asked(NamedTuple):
    """A question to the broker of a link: what reads the answer, and who waits for it."""

    link: Link
    read: Callable[[bytes], Any]
    answer: asyncio.Future[Any]


class RemotePages:
    """Asks the brokers that are linked, and answers them by `browse`, `list_destinations` and `explain`,
    which raise Refused; None until this broker serves clients. `name` is that of this broker, `others` the
    names of all others."""

    def __init__(self, name: str, members: Members, others: Callable[[], list[str]]) -> None:
        self.name = name
        self.others = others
        self.browse: Callable[[PageQuestion], Awaitable[BrowsedPage]] | None = None
        self.list_destinations: Callable[[DestinationsQuestion], Awaitable[DestinationsPage]] | None = None
        self.explain: Callable[[ReasonsQuestion], Awaitable[MessageReasons]] | None = None
        self._members = members
        self._numbers = count(1)
        self._asked: dict[int, _Asked] = {}
        self._answering: Counter[Link] = Counter()
        self._tasks = TaskSupervisor()

    def linked(self) -> list[str]:
        """The names of the brokers that can be asked."""
        return [one.name for one in self._members.all() if one.link is not None and one.link.is_up]

    async def ask(self, broker: str, question: PageQuestion) -> BrowsedPage:
        """The messages of another broker. Raises Refused if it refuses, or does not answer in time."""
        page: BrowsedPage = await self._ask(broker, question, _read_browsed)
        return page

    async def ask_destinations(self, broker: str, question: DestinationsQuestion) -> DestinationsPage:
        """The destinations of another broker. Raises Refused if it refuses, or does not answer in time."""
        page: DestinationsPage = await self._ask(broker, question, _destinations.decode)
        return page

    async def ask_reasons(self, broker: str, question: ReasonsQuestion) -> MessageReasons:
        """The reasons for a message of another broker. Raises Refused if it refuses, which it does without
        the message, or does not answer in time."""
        reasons: MessageReasons = await self._ask(broker, question, _read_reasons)
        return reasons

    async def _ask(self, broker: str, question: _Question, read: Callable[[bytes], Any]) -> Any:
        link = self._members.link_to(broker)
        if link is None or not link.is_up:
            raise _unreachable(broker)
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[number] = _Asked(link, read, answer)
        try:
            link.send(f.AskPage(number, _encode(question)))
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError:
            raise Refused("timeout", f"broker {broker} has not answered in {ANSWER_S:g} s") from None
        finally:
            del self._asked[number]

    def receive(self, link: Link, frame: f.AskPage | f.Page) -> None:
        """Take a question, or an answer. Raises Refused for one that no broker would send."""
        try:
            if isinstance(frame, f.AskPage):
                self._question(link, frame.number, _questions.decode(frame.question))
            else:
                self._answered(link, frame)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Refused("protocol-error", f"a page cannot be read: {error}") from None

    def _question(self, link: Link, number: int, question: _Question) -> None:
        if self._answering[link] >= _MOST_QUESTIONS:
            link.send(f.Page(number, b"", "busy", "it answers as many questions as it may at a time"))
            return
        self._answering[link] += 1
        self._tasks.start("a page for another broker", partial(self._answer, link, number, question))

    async def _answer(self, link: Link, number: int, question: _Question) -> None:
        answer = f.Page(number, b"", "internal", "the broker failed at it; its log has the details")
        try:
            answer = f.Page(number, _encode(await self._page(question)))
        except Refused as refusal:
            answer = f.Page(number, b"", refusal.code, refusal.detail[:1_000])
        except Exception as error:
            internal_errors.note("a page for another broker", error)
        finally:
            self._answering[link] -= 1
            if not self._answering[link]:
                del self._answering[link]
        if not link.send_call(answer):
            link.send(f.Page(number, b"", "busy", "too much waits to be sent over the link"))

    async def _page(self, question: _Question) -> _Answer:
        if isinstance(question, DestinationsQuestion):
            if self.list_destinations is None:
                raise Refused("unavailable", "it does not show its destinations to other brokers")
            return await self.list_destinations(question)
        if isinstance(question, ReasonsQuestion):
            if question.address:
                _check_queue(question.address)
            if self.explain is None:
                raise Refused("unavailable", "it does not explain its messages to other brokers")
            return await self.explain(question)
        _check_queue(question.address)
        if self.browse is None:
            raise Refused("unavailable", "it does not show its messages to other brokers")
        return await self.browse(question)

    def _answered(self, link: Link, frame: f.Page) -> None:
        asked = self._asked.get(frame.number)
        if asked is None or asked.link is not link or asked.answer.done():
            return  # it came too late
        if frame.code:
            asked.answer.set_exception(Refused(frame.code[:100], frame.detail[:1_000]))
        else:
            asked.answer.set_result(asked.read(frame.body))

    def ended(self, link: Link) -> None:
        """Wait no longer for a broker whose link has ended."""
        for asked in self._asked.values():
            if asked.link is link and not asked.answer.done():
                asked.answer.set_exception(_unreachable(link.broker.name if link.broker is not None else ""))

    async def stop(self) -> None:
        """Answer no broker any more."""
        await self._tasks.stop()


def _check_queue(address: str) -> None:
    """Raise Refused for what is no queue that others may see."""
    destination = parse(address)
    if destination.kind != QUEUE or is_reserved(destination.name):
        raise Refused("not-found", f"{address} is no queue that other brokers can browse")


def _read_reasons(body: bytes) -> MessageReasons:
    """The reasons for a message of another broker. Raises Refused for some that no broker would send."""
    reasons = _reasons.decode(body)
    _check_queue(reasons.address)
    check_block(reasons.block)
    return reasons


def _read_browsed(body: bytes) -> BrowsedPage:
    """Messages of another broker. Raises Refused for some that no broker would send."""
    page = _browsed.decode(body)
    check_ids([row.id for row in page.rows])
    for row in page.rows:
        check_block(row.block)
    return page


def _unreachable(broker: str) -> Refused:
    return Refused("unreachable", f"broker {broker} is not linked")
