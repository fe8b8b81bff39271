"""The poster that has workers in other processes send requests, over a channel layer.

A layer may lose what it carries, and workers may end at any time. So a request that no worker has taken is
not attempted, and one without an answer in time has failed; in both cases its message is pushed again.

    node ── webhook.send ──► mom.webhooks ──► worker ── POST ──► receiver
         ◄── taken, then the answer ── channel of the node ──┘
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from broker_app.base.process.task_supervisor import supervised
from broker_app.peers.http_client import exchange
from broker_app.peers.http_client.exchange import HttpAnswer, HttpRequest, Poster, Unanswered

log = logging.getLogger(__name__)

#: the channel on which workers listen
CHANNEL: Final = "mom.webhooks"
#: the type of a task, by which Channels finds the method of a consumer
TASK: Final = "webhook.send"
#: seconds for a worker to take a request, and for its answer to come back
TAKE_S: Final = 10.0
BACK_S: Final = 5.0

Message = dict[str, Any]


class LayerFailed(Exception):
    """The channel layer cannot be reached, or is full."""


class ChannelLayer(Protocol):
    """A channel layer of Channels. Each method raises LayerFailed."""

    async def send(self, channel: str, message: Message) -> None: ...
    async def receive(self, channel: str) -> Message: ...
    async def new_channel(self) -> str: ...
    async def close(self) -> None: ...


class _Sent:
    """A request that has no answer yet."""

    def __init__(self) -> None:
        self.taken = asyncio.Event()
        self.answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()


class WorkerPoster:
    """A poster. Made within the running loop; `close` it in the end."""

    def __init__(self, layer: ChannelLayer) -> None:
        self._layer = layer
        self._numbers = itertools.count(1)
        self._sent: dict[int, _Sent] = {}
        #: the channel on which answers come
        self._channel: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._receiving = asyncio.create_task(
            supervised("answers of webhook workers", self._receive), name="answers of webhook workers"
        )

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """The answer that a worker got. Raises Unanswered."""
        number, sent = next(self._numbers), _Sent()
        self._sent[number] = sent
        try:
            await self._hand_over(request, number, sent)
            async with asyncio.timeout(request.timeout_s + BACK_S):
                return _answer(await sent.answer)
        except TimeoutError:
            detail = "a worker has taken the request, and not answered in time"
            raise Unanswered(exchange.WORKER, detail) from None
        finally:
            del self._sent[number]

    async def close(self) -> None:
        self._receiving.cancel()
        await asyncio.wait([self._receiving])
        await self._layer.close()

    async def _hand_over(self, request: HttpRequest, number: int, sent: _Sent) -> None:
        """Return when a worker has taken the request. Raises Unanswered."""
        try:
            async with asyncio.timeout(TAKE_S):
                reply_to = await asyncio.shield(self._channel)
                await self._layer.send(CHANNEL, task_of(request, number, reply_to))
                await sent.taken.wait()
        except TimeoutError:
            detail = f"no worker took the request within {TAKE_S:g} s; does `mom callback worker` run?"
            raise Unanswered(exchange.NO_WORKER, detail) from None
        except LayerFailed as error:
            raise Unanswered(exchange.NO_WORKER, f"the channel layer failed: {error}") from None

    async def _receive(self) -> None:
        """Pass answers on, for ever; while the layer fails, look again every second."""
        while True:
            try:
                if not self._channel.done():
                    self._channel.set_result(await self._layer.new_channel())
                self._take(await self._layer.receive(self._channel.result()))
            except LayerFailed as error:
                log.warning("no answers of webhook workers can be received: %s", error)
                await asyncio.sleep(1.0)

    def _take(self, message: Message) -> None:
        sent = self._sent.get(message.get("number", 0))
        if sent is None:
            return  # it came too late
        sent.taken.set()
        if "taken" not in message and not sent.answer.done():
            sent.answer.set_result(message)


def task_of(request: HttpRequest, number: int, reply_to: str) -> Message:
    """A request as a message to a worker."""
    headers = [list(pair) for pair in request.headers]
    return {"type": TASK, "number": number, "reply_to": reply_to, **request._asdict(), "headers": headers}


async def carry_out(
    task: Mapping[str, Any], poster: Poster, reply: Callable[[str, Message], Awaitable[None]]
) -> None:
    """Send the request of a task in a worker, and `reply` to its channel: first that it is taken, then the
    answer."""
    head = {"type": "webhook.answer", "number": task["number"]}
    await reply(task["reply_to"], {**head, "taken": True})
    request = HttpRequest(
        task["method"],
        task["url"],
        tuple((name, value) for name, value in task["headers"]),
        task["body"],
        task["timeout_s"],
    )
    try:
        answer = await poster.send(request)
    except Unanswered as error:
        await reply(task["reply_to"], {**head, "code": error.code, "detail": error.detail})
        return
    content = {"status": answer.status, "headers": dict(answer.headers), "body": answer.body}
    await reply(task["reply_to"], {**head, **content})


def _answer(message: Message) -> HttpAnswer:
    if "code" in message:
        raise Unanswered(message["code"], message["detail"])
    return HttpAnswer(message["status"], message["headers"], message["body"])
