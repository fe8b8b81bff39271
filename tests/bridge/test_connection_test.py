"""Testing a connection: each step has its result and how to fix it, and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker_app.features.bridge import connection_test
from broker_app.features.bridge.connection_test import BridgeTrial, TrialStep, try_connection
from broker_app.features.bridge.remote import Remote
from tests.support.authority import Authority
from tests.support.ports import reserve_port

_MOM = "mom-bridge:1\nserver:mom/9\n"


class Scripted:
    """A broker that sends what a test wants; `heard` are the frames that came."""

    def __init__(self, connected: str = _MOM, refuses: str = "") -> None:
        self.connected = connected
        self.refuses = refuses
        self.heard: list[str] = []
        self.serving: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving[task] = writer
        try:
            await self._converse(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            del self.serving[task]

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = (await reader.readuntil(b"\0")).decode().lstrip("\n").rstrip("\0")
                self.heard.append(frame)
                if reply := self._reply(frame):
                    writer.write(reply.encode() + b"\0")

    async def stop(self) -> None:
        """End what is still connected; tasks are not cancelled, because asyncio's streams report that."""
        for writer in self.serving.values():
            writer.transport.abort()
        if self.serving:
            await asyncio.wait(list(self.serving))

    def _reply(self, frame: str) -> str:
        match frame.partition("\n")[0]:
            case "CONNECT" if "passcode:wrong" in frame or "\nlogin:" not in frame:
                return f"ERROR\ncontent-type:application/problem+json\n\n{problem('not-authenticated')}"
            case "CONNECT":
                return f"CONNECTED\nversion:1.2\nheart-beat:0,0\n{self.connected}\n"
            case "SUBSCRIBE" if self.refuses:
                head = "MESSAGE\nsubscription:$mom.refused\nmessage-id:1\ndestination:/user/$mom.refused\n"
                return f"{head}receipt-id:trial\n\n{problem('not-allowed', destination=self.refuses)}"
            case "SUBSCRIBE":
                return (
                    "MESSAGE\nsubscription:trial\nmessage-id:1\ndestination:/queue/x\naccepted:0\ncount:0\n\n"
                )
        return ""

    @property
    def actions(self) -> list[str]:
        return [frame.partition("\n")[0] for frame in self.heard]


def problem(name: str, **more: str) -> str:
    return json.dumps({"type": f"/docs/problems/{name}", "detail": f"refused: {name}", **more})


@contextlib.asynccontextmanager
async def listening(broker: Scripted, tls: ssl.SSLContext | None = None) -> AsyncIterator[Remote]:
    """The remote that leads to a scripted broker."""
    async with await asyncio.start_server(broker.serve, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        try:
            yield Remote(
                "oslo", "127.0.0.1", port, "stomps" if tls else "stomp", user="bridge", password="s3cret"
            )
        finally:
            await broker.stop()


async def tried(remote: Remote, queue: str | None = "orders") -> BridgeTrial:
    found = await try_connection(remote, queue, "home")
    assert "s3cret" not in json.dumps(found)
    return found


def outcome(found: BridgeTrial) -> dict[str, bool | None]:
    return {step["name"]: step["ok"] for step in found["steps"]}


def failed(found: BridgeTrial) -> TrialStep:
    """The one step that failed; it has a fix."""
    assert not found["ok"]
    (step,) = [step for step in found["steps"] if step["ok"] is False]
    assert step["detail"] and step["fix"]
    return step


async def test_a_connection_to_another_mom_with_all_rights() -> None:
    broker = Scripted()
    async with listening(broker) as remote:
        found = await tried(remote)
    assert outcome(found) == {"dns": True, "tcp": True, "login": True, "sync-queue": True, "target": True}
    assert (found["ok"], found["delivery"], found["server"]) == (True, "exactly-once", "mom/9")
    assert broker.actions == ["CONNECT", "SUBSCRIBE", "UNSUBSCRIBE", "DISCONNECT"], "and nothing is sent"
    assert "mom-target:/queue/orders" in broker.heard[1]
    assert "mom-bridge:home~trial" in broker.heard[0], "a flow of the broker itself goes on"
    assert all(step["seconds"] < 5 for step in found["steps"])


async def test_without_a_queue_the_sync_queue_alone_is_asked_for() -> None:
    async with listening(Scripted()) as remote:
        found = await tried(remote, None)
    assert found["ok"]
    assert outcome(found)["sync-queue"] is True
    assert outcome(found)["target"] is None


@pytest.mark.parametrize(
    ("destination", "step"),
    [("queue:storeAndForwardSyncQueue", "sync-queue"), ("queue:orders", "target")],
)
async def test_a_missing_right_is_reported_with_its_user_and_purpose(destination: str, step: str) -> None:
    broker = Scripted(refuses=destination)
    async with listening(broker) as remote:
        found = await tried(remote)
    assert failed(found)["name"] == step
    assert "bridge" in failed(found)["fix"] and destination.partition(":")[2] in failed(found)["fix"]
    assert broker.actions[-1] == "DISCONNECT"


async def test_a_foreign_broker_is_at_least_once_and_nothing_is_sent_to_it() -> None:
    broker = Scripted("server:RabbitMQ/4.0\n")
    async with listening(broker) as remote:
        found = await tried(remote)
    assert (found["ok"], found["delivery"]) == (True, "at-least-once")
    assert "at least once" in found["steps"][2]["detail"]
    assert (outcome(found)["sync-queue"], outcome(found)["target"]) == (None, None)
    assert broker.actions == ["CONNECT", "DISCONNECT"]


async def test_a_wrong_password_fails_at_the_login() -> None:
    async with listening(Scripted()) as remote:
        found = await try_connection(replace(remote, password="wrong"), None, "home")
    assert failed(found)["name"] == "login"
    assert "user and password" in failed(found)["fix"]
    assert outcome(found)["sync-queue"] is None, "it was not tried"
    async with listening(Scripted()) as remote:
        found = await try_connection(replace(remote, user="", password=""), None, "home")
    assert "it has none" in failed(found)["fix"]


async def test_a_refused_connection_is_reported() -> None:
    port = reserve_port()
    found = await tried(Remote("oslo", "127.0.0.1", port))
    assert failed(found)["name"] == "tcp"
    assert list(outcome(found).values()) == [True, False, None, None, None]


async def test_an_unknown_host_is_reported() -> None:
    found = await tried(Remote("oslo", "no-such-host.invalid"))
    assert failed(found)["name"] == "dns"
    assert "hostname" in failed(found)["fix"]


# ---------------------------------------------------------------------- TLS


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def of_server(authority: Authority) -> ssl.SSLContext:
    files = authority.server()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files["tls_cert"], files["tls_key"])
    return context


async def test_a_trusted_certificate_is_shown_with_its_names_and_expiry(authority: Authority) -> None:
    async with listening(Scripted(), of_server(authority)) as remote:
        found = await tried(replace(remote, ca_file=str(authority.ca_file)))
    assert found["ok"], found
    step = found["steps"][2]
    assert step["name"] == "tls"
    assert "localhost" in step["detail"] and "good until 20" in step["detail"]


async def test_an_untrusted_certificate_is_shown_with_the_reason(authority: Authority) -> None:
    async with listening(Scripted(), of_server(authority)) as remote:
        step = failed(await tried(remote))
    assert step["name"] == "tls"
    assert "not trusted" in step["detail"] and "signed by" in step["detail"]
    assert "ca_file" in step["fix"]


async def test_a_ca_file_that_is_missing_is_named(authority: Authority, tmp_path: Path) -> None:
    async with listening(Scripted(), of_server(authority)) as remote:
        step = failed(await tried(replace(remote, ca_file=str(tmp_path / "none.pem"))))
    assert (step["name"], "none.pem" in step["detail"]) == ("tls", True)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that do not wait long for what never comes."""
    monkeypatch.setattr(connection_test, "STEP_S", 0.3)


@pytest.mark.usefixtures("hasty")
async def test_a_port_without_tls() -> None:
    async with listening(Scripted()) as remote:
        step = failed(await tried(replace(remote, protocol="stomps")))
    assert step["name"] == "tls"


@pytest.mark.usefixtures("hasty")
async def test_a_port_without_websocket() -> None:
    async with listening(Scripted()) as remote:
        step = failed(await tried(replace(remote, protocol="ws")))
    assert step["name"] == "websocket"
