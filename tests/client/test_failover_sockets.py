"""Failover over sockets: a text of addresses from a file or a server, times on the clock, threads."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

import mom_client
import mom_client.blocking
from mom_client.connection import updates
from mom_client.connection.updates import UpdateSource
from tests.client.loopback import LoopbackBroker, serving
from tests.support.patience import patient

REAL_TIME = True


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(patient(20)):
        while not condition():
            await asyncio.sleep(0.005)


async def test_six_attempts_at_two_dead_addresses() -> None:
    """AF-T07, with real ports: they count who comes, and let nobody in."""
    attempts = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1

    async with serving(refuse) as first, serving(refuse) as second:
        one, two = f"stomp://127.0.0.1:{first}", f"stomp://127.0.0.1:{second}"
        client = mom_client.connect(f"failover:({one},{two})?maxReconnectAttempts=3")
        with pytest.raises(mom_client.ConnectionLost) as error:
            await client.open()
        assert one in str(error.value) and two in str(error.value)
        assert attempts == 6
        with pytest.raises(mom_client.ConnectionLost, match="6 attempts"):
            await client.send("/queue/a")
        assert attempts == 6


@pytest.mark.parametrize("form", ["path", "file", "http"])
async def test_a_text_of_addresses(tmp_path: Path, form: str) -> None:
    """It is read when all others have failed, and again in each sweep."""
    async with LoopbackBroker() as broker, LoopbackBroker() as other:
        text = tmp_path / "brokers"
        text.write_text("")
        async with served(text) as url:
            source = {"path": str(text), "file": text.as_uri(), "http": url}[form]
            events: list[mom_client.ConnectionEvent] = []
            client = mom_client.connect(
                f"failover:({broker.address})?updateURIsURL={source}&maxReconnectDelay=20",
                listener=events.append,
            )
            async with client as mom:
                await broker.stop()
                await until(lambda: len(events) > 3)
                assert not mom.connected
                text.write_text(f"nonsense, {broker.address},\n {other.address}\n")
                await mom.send("/queue/a", "x")
                assert mom.address == other.address
                assert other.bodies == [b"x"]


async def test_a_text_is_read_once_in_each_sweep_when_all_others_have_failed(tmp_path: Path) -> None:
    """AF-A06: its addresses are the last of a sweep."""
    asked: list[str] = []

    def note(place: str) -> Callable[[], None]:
        return lambda: asked.append(place)

    text = tmp_path / "brokers"
    async with (
        refusing(note("first")) as first,
        refusing(note("second")) as second,
        refusing(note("named")) as named,
        served(text, note("text")) as url,
    ):
        text.write_text(f"stomp://127.0.0.1:{named}, stomp://127.0.0.1:{first}")
        addresses = f"stomp://127.0.0.1:{first},stomp://127.0.0.1:{second}"
        options = f"updateURIsURL={url}&maxReconnectAttempts=3&randomize=false"
        with pytest.raises(mom_client.ConnectionLost, match="3 sweeps of the list, 9 attempts"):
            await mom_client.connect(f"failover:({addresses})?{options}").open()
    assert asked == ["first", "second", "text", "named"] * 3


def refusing(came: Callable[[], None]) -> contextlib.AbstractAsyncContextManager[int]:
    """A port at which nobody is let in; `came` is called for each attempt."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came()

    return serving(refuse)


@contextlib.asynccontextmanager
async def served(file: Path, read: Callable[[], None] = lambda: None) -> AsyncIterator[str]:
    """The URL of `file` at a server that is closed in the end; `read` is called for each request."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        read()
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + await asyncio.to_thread(file.read_bytes))
        await writer.drain()

    async with serving(answer) as port:
        yield f"http://127.0.0.1:{port}/list"


async def test_a_changed_text_lets_the_delay_begin_again(tmp_path: Path) -> None:
    text = tmp_path / "brokers"
    for rebalance in (True, False):
        source = UpdateSource(str(text), rebalance=rebalance)
        text.write_text("stomp://a:1, stomp://b:2")
        assert await source.read() == (["stomp://a:1", "stomp://b:2"], False)
        text.write_text("stomp://b:2,stomp://a:1")
        assert await source.read() == (["stomp://b:2", "stomp://a:1"], False)  # the same set
        text.write_text("stomp://b:2")
        assert await source.read() == (["stomp://b:2"], rebalance)


async def test_a_text_that_cannot_be_read_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, binary = tmp_path / "large", tmp_path / "binary"
    large.write_bytes(b"x" * (updates.MAX_BYTES + 1))
    binary.write_bytes(b"\xff")
    for path, reason in (
        (tmp_path / "missing", "No such file"),
        (large, "more than 65,536 bytes"),
        (binary, "codec can't decode"),
    ):
        caplog.clear()
        assert await UpdateSource(str(path)).read() == ([], False)
        assert f"updateURIsURL {path} cannot be read" in caplog.text and reason in caplog.text
    monkeypatch.setattr(updates, "READ_S", 0.1)

    async def dawdle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
        await reader.read()

    async with serving(dawdle) as port:
        caplog.clear()
        url = f"http://127.0.0.1:{port}/"
        assert await UpdateSource(url).read() == ([], False)
        assert "cannot be read: no answer within 0.1 s" in caplog.text


async def test_a_mirror_that_refuses_web_sockets_names_the_broker_that_serves() -> None:
    async with LoopbackBroker() as broker:

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            problem = {"type": "/docs/problems/MAIN_ACTIVE", "detail": "a mirror", "active": broker.address}
            body = json.dumps(problem).encode()
            length = b"content-length: %d" % len(body)
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\n%b\r\n\r\n%b" % (length, body))
            await writer.drain()

        async with (
            serving(refuse) as port,
            mom_client.connect(f"failover:(ws://127.0.0.1:{port}/ws)") as mom,
        ):
            assert mom.address == broker.address


def test_events_of_a_blocking_client() -> None:
    """The listener has a thread of its own, and may use the client."""
    heard: list[tuple[str, str]] = []
    threads: set[str] = set()
    reconnected = threading.Event()

    def listen(event: mom_client.ConnectionEvent) -> None:
        heard.append((event.kind, event.address))
        threads.add(threading.current_thread().name)
        if event.kind == "reconnected":
            mom.send("/queue/a", "from the listener")
            reconnected.set()

    loop = asyncio.new_event_loop()
    serving = threading.Thread(target=loop.run_forever)
    serving.start()

    def run(work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(20)  # type: ignore[arg-type]

    broker = LoopbackBroker()
    run(broker.start())
    try:
        with mom_client.blocking.connect(f"failover:({broker.address})", listener=listen) as mom:
            mom.send("/queue/a", "before")
            run(broker.stop())
            run(broker.start())
            assert reconnected.wait(20)
            assert mom.connected and mom.address == broker.address
    finally:
        run(broker.stop())
        loop.call_soon_threadsafe(loop.stop)
        serving.join()
        loop.close()
    assert broker.bodies == [b"before", b"from the listener"]
    kinds = [kind for kind, _ in heard if kind != "reconnect failed"]
    assert kinds == ["closed", "reconnected", "closing", "closed"]
    assert {address for _, address in heard} == {broker.address}
    assert len(threads) == 1 and threading.current_thread().name not in threads
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("mom_client")]
