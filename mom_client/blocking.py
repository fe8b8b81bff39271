"""The client without asyncio, for scripts, notebooks and Spark: the same names, and calls that wait.

    with mom_client.blocking.connect(login="admin", passcode="…") as mom:
        mom.send("/queue/orders", "hello")
        with mom.subscribe("/queue/orders") as messages:
            for message in messages:
                print(message.text)
                mom.ack(message)

Runs the asyncio client in a thread of its own; may be used from several threads.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from . import channels as asynchronous_channels
from . import client as asynchronous
from .channel_parts import Part
from .channels import Channel, Handler
from .errors import ClientError
from .events import ConnectionEvent, ExceptionListener, Listener
from .message import Message
from .subscription import Subscription
from .transaction import Transaction

__all__ = ["Client", "Environment", "Messages", "connect", "environment"]

log = logging.getLogger("mom_client")

T = TypeVar("T")


class _LoopThread:
    """A loop that runs in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mom_client", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this in the loop, and wait for its result."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C must not leave the work behind
            future.cancel()
            raise

    def stop(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Client:
    """Made by `connect`; options, results and errors are those of `mom_client.Client`.

    Listeners are called in a thread of their own and may use the client, except to leave it.
    """

    def __init__(
        self,
        url: str | list[str] | None = None,
        *,
        listener: Listener | None = None,
        exception_listener: ExceptionListener | None = None,
        **options: Any,
    ) -> None:
        self._runner: _LoopThread
        self._listener = listener
        self._exception_listener = exception_listener
        self._events: ThreadPoolExecutor | None = None
        self._client = asynchronous.connect(
            url, listener=self._notify, exception_listener=self._failed, **options
        )

    def __enter__(self) -> Self:
        self._runner = _LoopThread()
        try:
            self._wait(self._client.open())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self._wait(self._client.close())
        finally:
            self._stop()

    def _notify(self, event: ConnectionEvent) -> None:
        """Call the listener in a thread of its own, one event after the other: it may use this client."""
        self._submit(self._listener, event)

    def _failed(self, reason: ClientError) -> None:
        self._submit(self._exception_listener, reason)

    def _submit(self, listener: Callable[[T], None] | None, event: T) -> None:
        if listener is not None:
            if self._events is None:
                self._events = ThreadPoolExecutor(1, thread_name_prefix="mom_client events")
            self._events.submit(self._report, listener, event)

    def _report(self, listener: Callable[[T], None], event: T) -> None:
        try:
            listener(event)
        except Exception:
            log.exception("the listener for connection events failed on %s", event)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.wait(work)

    def _stop(self) -> None:
        self._runner.stop()
        if self._events is not None:
            self._events.shutdown()

    @property
    def connected(self) -> bool:
        """True if there is a connection now."""
        return self._client.connected

    @property
    def address(self) -> str:
        """The broker's address as of the last connection."""
        return self._client.address

    def destination(self, queue: str, **options: Any) -> str:
        return self._client.destination(queue, **options)

    def send(self, destination: str, body: bytes | str = b"", **options: Any) -> None:
        self._wait(self._client.send(destination, body, **options))

    def send_json(self, destination: str, value: Any, **options: Any) -> None:
        self._wait(self._client.send_json(destination, value, **options))

    def request(self, destination: str, body: bytes | str = b"", **options: Any) -> Message:
        return self._wait(self._client.request(destination, body, **options))

    def ack(self, message: Message, **options: Any) -> None:
        self._wait(message.ack(**options))

    def nack(self, message: Message, **options: Any) -> None:
        self._wait(message.nack(**options))

    def forget(self, durable: str) -> None:
        self._wait(self._client.forget(durable))

    def subscribe(self, destination: str, **options: Any) -> "Messages":
        return Messages(self, self._client.subscribe(destination, **options))

    def transaction(self) -> "BlockingTransaction":
        return BlockingTransaction(self, self._client.transaction())


class Messages(Iterator[Message]):
    """Enter it to subscribe, iterate it, leave it to unsubscribe."""

    def __init__(self, client: Client, subscription: Subscription) -> None:
        self._client = client
        self._subscription = subscription

    def __enter__(self) -> Self:
        self._client._wait(self._subscription.__aenter__())
        return self

    def __exit__(self, *exception: object) -> None:
        self._client._wait(self._subscription.__aexit__(*exception))

    def __next__(self) -> Message:
        try:
            return self._client._wait(self._subscription.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def get(self, timeout_s: float | None = None) -> Message:
        return self._client._wait(self._subscription.get(timeout_s))


class BlockingTransaction:
    """Enter it to begin a transaction, leave it to commit; an exception aborts."""

    def __init__(self, client: Client, transaction: Transaction) -> None:
        self._client = client
        self._transaction = transaction

    def __enter__(self) -> Self:
        self._client._wait(self._transaction.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client._wait(self._transaction.__aexit__(kind, error, trace))

    def send(self, destination: str, body: bytes | str = b"", **options: Any) -> None:
        self._client._wait(self._transaction.send(destination, body, **options))

    def ack(self, message: Message) -> None:
        self._client._wait(self._in_the_loop(self._transaction.ack, message))

    def nack(self, message: Message, **options: Any) -> None:
        self._client._wait(self._in_the_loop(self._transaction.nack, message, **options))

    async def _in_the_loop(self, act: Callable[..., None], *arguments: Any, **options: Any) -> None:
        act(*arguments, **options)


def connect(url: str | list[str] | None = None, **options: Any) -> Client:
    """As `mom_client.connect`, for ``with``."""
    return Client(url, **options)


class Environment:
    """Made by `environment`; options, results and errors are those of `mom_client.channels.Environment`. A
    handler is called in a thread."""

    def __init__(
        self, url: str | list[str] | None = None, *, site: str | None = None, **options: Any
    ) -> None:
        self._runner = _LoopThread()
        self._env = asynchronous_channels.environment(url, site=site, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self._runner.wait(self._env.__aexit__(*exception))
        finally:
            self._runner.stop()

    @property
    def site(self) -> str:
        """The name of the site; empty before the start."""
        return self._env.site

    def repmgr_msg_dispatch(self, handler: Handler) -> None:
        self._runner.wait(self._env.repmgr_msg_dispatch(handler))

    def repmgr_start(self) -> None:
        self._runner.wait(self._env.repmgr_start())

    def repmgr_channel(self, site: str) -> "BlockingChannel":
        return BlockingChannel(self._runner, self._runner.wait(self._env.repmgr_channel(site)))

    def close(self) -> None:
        """End the environment. Raises EINVAL while channels are open."""
        self._runner.wait(self._env.close())


class BlockingChannel:
    """A channel whose calls wait."""

    def __init__(self, runner: "_LoopThread", channel: Channel) -> None:
        self._runner = runner
        self._channel = channel
        self.site = channel.site

    def send_msg(self, parts: Iterable[Part]) -> None:
        self._runner.wait(self._channel.send_msg(parts))

    def send_request(
        self, parts: Iterable[Part], timeout_s: float = 0, *, multiple: bool = False
    ) -> bytes | list[bytes]:
        return self._runner.wait(self._channel.send_request(parts, timeout_s, multiple=multiple))

    def set_timeout(self, timeout_s: float) -> None:
        self._channel.set_timeout(timeout_s)

    def close(self) -> None:
        self._runner.wait(self._channel.close())


def environment(
    url: str | list[str] | None = None, *, site: str | None = None, **options: Any
) -> Environment:
    """As `mom_client.environment`, for ``with``."""
    return Environment(url, site=site, **options)
