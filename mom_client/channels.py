"""Message channels between the sites of a cluster, with the names of Berkeley DB's replication manager.

    env = await mom_client.environment("stomp://b2:61613", site="b2", login="app", passcode="…")
    await env.repmgr_msg_dispatch(handler)      # async def handler(channel, parts, need_response)
    await env.repmgr_start()
    channel = await env.repmgr_channel(mom_client.MASTER)
    answer = await channel.send_request([b"get", b"AAPL"])

A site is a broker of the cluster, by its name. Nothing is stored and nothing is repeated: what cannot be
handed over is refused, and a request whose outcome is not known says so.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, Self

from .channel_errors import (
    DB_BUFFER_SMALL,
    DB_KEYEMPTY,
    DB_NOSERVER,
    DB_REP_UNAVAIL,
    DB_TIMEOUT,
    EINVAL,
    ChannelClosed,
    ChannelError,
    error_of,
)
from .channel_parts import Part, joined, parts_of
from .client import Client, connect
from .errors import ClientError, ConnectionLost, Refused
from .message import Message
from .subscription import Subscription

__all__ = [
    "DB_BUFFER_SMALL",
    "DB_KEYEMPTY",
    "DB_NOSERVER",
    "DB_REP_UNAVAIL",
    "DB_TIMEOUT",
    "EINVAL",
    "MASTER",
    "Channel",
    "ChannelClosed",
    "ChannelError",
    "Environment",
    "ResponseChannel",
    "environment",
]

log = logging.getLogger("mom_client")

#: the site that is the master when a message is sent; `DB_EID_MASTER`
MASTER: Final = "$master"
#: seconds until a request is given up, unless the channel or the call has another time
DEFAULT_TIMEOUT_S: Final = 5.0
#: the longest time of a channel: 32 bits of microseconds
MAX_TIMEOUT_S: Final = 4_294.0
#: calls of one environment that its handler works on at a time: as many as a broker gives to one handler
MAX_CALLS: Final = 64
#: seconds beyond its own time in which the broker must have answered a request
_MARGIN_S: Final = 5.0
#: answers, or calls, that are taken in one turn of the loop: the broker works on what they lead to while the
#: next ones are taken. All at once would go round as one, and have one of the processes work at a time
_FRAMES_A_TURN: Final = 8
#: a subscription to it is a handler, which must answer
REQUESTS: Final = "/topic/$channel.requests"

Handler = Callable[[Any, list[bytes], bool], Any]


def environment(
    url: str | Sequence[str] | None = None, *, site: str | None = None, **options: Any
) -> "Environment":
    """An environment of the site whose broker is at `url`; use it with ``await``, or ``async with``.

    site      the name of that broker: refused as EINVAL if it has another one; None: whichever it is
    options   those of `connect`
    """
    return Environment(url, site, options)


class Environment:
    """An application at one site: its handler, and the channels that it has opened."""

    def __init__(self, url: str | Sequence[str] | None, site: str | None, options: dict[str, Any]) -> None:
        self._client: Client = connect(url, **options)
        self._client.most_frames = _FRAMES_A_TURN
        self._wanted = site
        self._handler: Handler | None = None
        self._in_thread = False
        self._subscription: Subscription | None = None
        self._receiving: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[None]] = set()
        #: set when a call has ended
        self._room = asyncio.Event()
        self._channels: dict[Channel, None] = {}
        self._is_started = False

    def __await__(self) -> Generator[Any, None, Self]:
        return self._self().__await__()

    async def _self(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        for channel in list(self._channels):
            await channel.close()
        await self.close()

    @property
    def site(self) -> str:
        """The name of the site; empty before the start."""
        return self._client.server.get("mom-broker", "") if self._is_started else ""

    async def repmgr_msg_dispatch(self, handler: Handler) -> None:
        """Have `handler(channel, parts, need_response)` called for each message that comes to this site; it
        may be a coroutine function or a plain one, which is called in a thread.

        Set it before the start, or what comes between is refused as DB_NOSERVER.
        """
        self._handler = handler
        self._in_thread = not inspect.iscoroutinefunction(handler)
        if self._is_started and self._subscription is None:
            await self._receive()

    async def repmgr_start(self) -> None:
        """Connect to the broker of the site. Raises EINVAL if that has another name."""
        if self._is_started:
            return
        await self._client.open()
        name = self._client.server.get("mom-broker", "")
        if self._wanted is not None and name != self._wanted:
            await self._client.close()
            raise EINVAL(f"the broker there is site {name!r}, not {self._wanted!r}; connect to that one")
        self._is_started = True
        if self._handler is not None:
            await self._receive()

    async def repmgr_channel(self, site: str) -> "Channel":
        """A channel to a site, or to the master of each moment (`MASTER`).

        Raises EINVAL for a site that does not exist, DB_REP_UNAVAIL for one that is not connected, and when
        there is no master.
        """
        self._check_started()
        await self._confirmed(await self._send(site, [], {"channel-open": "true"}))
        channel = Channel(self, site)
        self._channels[channel] = None
        return channel

    async def close(self, wait_s: float = DEFAULT_TIMEOUT_S) -> None:
        """End the environment. Handlers that run have `wait_s` to complete, and are cancelled then. Raises
        EINVAL while channels are open."""
        if self._channels:
            sites = ", ".join(sorted(channel.site for channel in self._channels))
            raise EINVAL(f"close the channels to {sites} first")
        if self._receiving is not None:
            self._receiving.cancel()
            ending = {self._receiving, *self._calls}
            _, late = await asyncio.wait(ending, timeout=wait_s)
            for one in late:
                one.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
        if self._subscription is not None:
            await self._subscription.__aexit__(None, None, None)
            self._subscription = None
        self._is_started = False
        await self._client.close()

    # ------------------------------------------------------------------ for channels

    def _check_started(self) -> None:
        if not self._is_started:
            raise EINVAL("the environment is not started: call repmgr_start first")

    def _closed(self, channel: "Channel") -> None:
        self._channels.pop(channel, None)

    async def _send(
        self, site: str, parts: Iterable[Part], headers: dict[str, str]
    ) -> "asyncio.Future[None]":
        """Send a message, once there is room. Returns its confirmation to come."""
        body, lengths = joined(parts)
        if lengths is not None:
            headers["parts"] = lengths
        try:
            await self._client.requests.wait_writable()
            return self._client.send_nowait(f"/channel/{site}", body, headers=headers)
        except ConnectionLost as lost:
            raise DB_REP_UNAVAIL(str(lost)) from None

    async def _confirmed(self, confirmation: "asyncio.Future[None]") -> None:
        try:
            await confirmation
        except Refused as refused:
            raise error_of(refused.code, refused.detail) from None
        except ConnectionLost as lost:
            raise DB_REP_UNAVAIL(str(lost)) from None

    async def _request(
        self,
        site: str,
        parts: Iterable[Part],
        timeout_s: float,
        pending: "set[asyncio.Future[Any]]",
        *,
        multiple: bool,
    ) -> list[bytes]:
        """The answer to a request, which is in `pending` while it waits."""
        body, lengths = joined(parts)
        lines = b""  # only what the broker would not take for granted: each is read twice for each request
        if lengths is not None:
            lines = b"parts:%b\n" % lengths.encode()
        if timeout_s != DEFAULT_TIMEOUT_S:
            lines += b"timeout-ms:%d\n" % round(timeout_s * 1000)
        if multiple:
            lines += b"multiple:true\n"
        requests = self._client.requests
        try:
            if not requests.is_writable:
                await requests.wait_writable()
            id, reply = requests.ask(f"/channel/{site}", body, lines)
        except ConnectionLost as lost:
            raise DB_REP_UNAVAIL(str(lost)) from None
        timer = asyncio.get_running_loop().call_later(timeout_s + _MARGIN_S, _time_out, reply, site)
        pending.add(reply)
        try:
            answer = await reply
        except Refused as refused:
            raise error_of(refused.code, refused.detail) from None
        except ConnectionLost as lost:
            raise DB_REP_UNAVAIL(f"the outcome is unknown: {lost}") from None
        finally:
            pending.discard(reply)
            timer.cancel()
            requests.forget(id)
        status = answer.headers.get("channel-status", "ok")
        if status != "ok":
            raise error_of(status, answer.headers.get("reason") or f"the request to {site} failed")
        return parts_of(answer.body, answer.headers.get("parts"))

    # ------------------------------------------------------------------ calls

    async def _receive(self) -> None:
        self._subscription = self._client.subscribe(REQUESTS, ack="auto")
        await self._subscription.__aenter__()
        self._receiving = asyncio.create_task(self._run(self._subscription), name="mom_client channels")

    async def _run(self, calls: Subscription) -> None:
        async for message in calls:
            while len(self._calls) >= MAX_CALLS:
                self._room.clear()
                await self._room.wait()
            task = asyncio.create_task(self._call(message))
            self._calls.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._calls.discard(task)
        self._room.set()

    async def _call(self, message: Message) -> None:
        """Call the handler for one message."""
        handler = self._handler
        assert handler is not None
        need_response = message.headers.get("need-response") == "true"
        channel = ResponseChannel(self, message, need_response)
        try:
            parts = parts_of(message.body, message.headers.get("parts"))
            if self._in_thread:
                in_thread = ThreadChannel(channel, asyncio.get_running_loop())
                await asyncio.to_thread(handler, in_thread, parts, need_response)
            else:
                await handler(channel, parts, need_response)
        except Exception:
            log.exception("the handler of messages failed")
        finally:
            if channel._has_ended():
                await channel._report_silence()

    async def _answer(self, call: Message, parts: Iterable[Part] | None) -> None:
        """Send an answer, or (None) that there is none. The broker may refuse one of several parts, which is
        confirmed for that."""
        if not call.is_current:
            raise EINVAL("the connection over which the request came was lost: it cannot be answered")
        headers = {"channel-call": call.headers.get("channel-call", "")}
        if parts is None:
            headers["channel-status"] = "keyempty"
        body, lengths = joined(parts or ())
        if lengths is not None:
            headers["parts"] = lengths
        try:
            await self._client.send(
                "/channel/$answer", body, confirm=lengths is not None and "," in lengths, headers=headers
            )
        except Refused as refused:
            raise error_of(refused.code, refused.detail) from None
        except ConnectionLost as lost:
            raise DB_REP_UNAVAIL(str(lost)) from None


class Channel:
    """A channel to one site, made by `Environment.repmgr_channel`."""

    def __init__(self, env: Environment, site: str) -> None:
        self._env = env
        self.site = site
        self._timeout_s = DEFAULT_TIMEOUT_S
        self._is_closed = False
        self._open: set[asyncio.Future[Any]] = set()

    async def send_msg(self, parts: Iterable[Part]) -> None:
        """Send a message of one or more parts, without an answer. Returns when it was handed over."""
        self._check()
        confirmation = await self._env._send(self.site, parts, {})
        self._open.add(confirmation)
        try:
            await self._env._confirmed(confirmation)
        finally:
            self._open.discard(confirmation)

    async def send_request(
        self, parts: Iterable[Part], timeout_s: float = 0, *, multiple: bool = False
    ) -> bytes | list[bytes]:
        """Send a request and return its answer: one part, or with `multiple` the list of all of them.

        timeout_s   0: that of the channel

        Raises DB_TIMEOUT, DB_NOSERVER, DB_KEYEMPTY, DB_BUFFER_SMALL, DB_REP_UNAVAIL (the outcome is
        unknown) and EINVAL.
        """
        self._check()
        if not 0 <= timeout_s <= MAX_TIMEOUT_S:
            raise EINVAL(f"timeout_s is {timeout_s:g}; it must be from 0 to {MAX_TIMEOUT_S:g}")
        answer = await self._env._request(
            self.site, parts, timeout_s or self._timeout_s, self._open, multiple=multiple
        )
        return answer if multiple else (answer[0] if answer else b"")

    def set_timeout(self, timeout_s: float) -> None:
        """Set the time limit of requests that have none of their own."""
        self._check()
        if not 0 < timeout_s <= MAX_TIMEOUT_S:
            raise EINVAL(f"timeout_s is {timeout_s:g}; it must be above 0, and at most {MAX_TIMEOUT_S:g}")
        self._timeout_s = timeout_s

    async def close(self, wait_s: float = DEFAULT_TIMEOUT_S) -> None:
        """Close the channel. What is under way has `wait_s` to complete, and fails then."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._open:
            _, late = await asyncio.wait(self._open, timeout=wait_s)
            for one in late:
                _fail(one, ChannelClosed(f"the channel to {self.site} was closed meanwhile"))
        self._env._closed(self)

    def _check(self) -> None:
        if self._is_closed:
            raise ChannelClosed(f"the channel to {self.site} is closed")
        self._env._check_started()


class ResponseChannel:
    """The channel that a handler is given: for the answer to a request, or for a message back. It ends when
    the handler returns."""

    def __init__(self, env: Environment, message: Message, need_response: bool) -> None:
        self._env = env
        self._call = message
        #: the site that has sent the message
        self.site = message.headers.get("channel-from", "")
        self._need_response = need_response
        self._is_answered = self._is_ended = False

    async def send_msg(self, parts: Iterable[Part]) -> None:
        """Answer the request, once; or send a message back to a site that asked for no answer."""
        if self._is_ended:
            raise EINVAL("the handler has returned: its channel has ended")
        if not self._need_response:
            await self._env._confirmed(await self._env._send(self.site, parts, {}))
            return
        if self._is_answered:
            raise EINVAL("this request was answered before")
        self._is_answered = True
        await self._env._answer(self._call, parts)

    def _has_ended(self) -> bool:
        """End: the handler has returned. Returns whether it owes an answer."""
        self._is_ended = True
        return self._need_response and not self._is_answered

    async def _report_silence(self) -> None:
        """Report that the handler has returned without an answer."""
        try:
            await self._env._answer(self._call, None)
        except ClientError as error:
            log.info("a request without an answer: %s", error)

    def close(self) -> None:
        """Refused: it belongs to the environment."""
        raise EINVAL("a handler does not close its channel: it ends when the handler returns")

    def set_timeout(self, timeout_s: float) -> None:
        """Refused: nothing waits on it."""
        raise EINVAL("the channel of a handler has no time limit")

    def send_request(self, parts: Iterable[Part], timeout_s: float = 0) -> None:
        """Refused: open a channel to the site."""
        raise EINVAL("the channel of a handler sends no requests: open one to the site")


class ThreadChannel:
    """A `ResponseChannel` for a handler that is a plain function, and runs in a thread: its calls wait."""

    def __init__(self, channel: ResponseChannel, loop: asyncio.AbstractEventLoop) -> None:
        self._channel = channel
        self._loop = loop
        self.site = channel.site
        self.close, self.set_timeout = channel.close, channel.set_timeout
        self.send_request = channel.send_request

    def send_msg(self, parts: Iterable[Part]) -> None:
        """As `ResponseChannel.send_msg`."""
        asyncio.run_coroutine_threadsafe(self._channel.send_msg(parts), self._loop).result()


def _time_out(reply: "asyncio.Future[Any]", site: str) -> None:
    _fail(reply, DB_TIMEOUT(f"no answer from {site} in time, nor one of the broker"))


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
