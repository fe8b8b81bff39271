"""Trial: test the connection to a remote broker step by step, and say what came of each and how to fix it.

Nothing is left behind: no message is sent, and a flow that is begun to ask for the rights is one of another
sender and ended at once, so that those that run are not disturbed. All of it takes `LONGEST_S` at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Final, NamedTuple, TypedDict

from cryptography import x509

from broker_app.base.reply_types import Seconds, about, one_of
from broker_app.base.system_topics import REFUSED_SUBSCRIPTION
from broker_app.features.bridge import bridge_errors as troubles
from broker_app.features.bridge.bridge_errors import BridgeError
from broker_app.features.bridge.framing import LIMITS
from broker_app.features.bridge.pipe_reports import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    Delivery,
)
from broker_app.features.bridge.remote import Remote
from mom_client.connection.link import Link
from mom_client.connection.transport import Transport, open_transport, tls_context
from mom_client.errors import ConnectionLost, Refused
from mom_client.stomp import AckRun, Frame
from mom_client.stomp import frame as wire
from mom_client.stomp.connection import Connection
from mom_client.storeandforward import SYNC_QUEUE, Forwarded

#: seconds for one step, and for all of them
STEP_S: Final = 10.0
LONGEST_S: Final = 30.0

DNS, TCP, TLS, WEBSOCKET, LOGIN, SYNC, TARGET = STEPS = (
    "dns", "tcp", "tls", "websocket", "login", "sync-queue", "target",
)  # fmt: skip
_FLOW: Final = "trial"
_SKIPPED: Final = "not tried, because of the step before"

#: what to do about a trouble, where the step does not know better
_FIXES: Final = {
    troubles.CONFIG: "give the broker a file in ca_file that it can read, with certificates in PEM",
    troubles.DNS: "correct hostname, or have this machine's name server know it",
    troubles.REFUSED: "correct hostname and port, or start the remote broker",
    troubles.UNREACHABLE: "correct hostname and port, or have firewalls and routes let it through",
    troubles.TIMEOUT: "see whether a firewall drops it, and whether this protocol is spoken at this port",
    troubles.WEBSOCKET: "correct port and path; brokers have /ws, /stomp or nothing but /",
    troubles.LOGIN: "correct user and password, or make the user at the remote broker",
    troubles.HOST: "correct host: a virtual host of the remote broker; / is the usual one",
    troubles.PROTOCOL: "correct port and protocol: what is there does not speak STOMP like this",
    troubles.LOST: "see the log of the remote broker; it may be a port for TLS, or protocol is wrong",
}

_NO_USER: Final = "give the bridge a user of the remote broker and its password; it has none"


class Failed(Exception):
    """A step ended badly."""

    def __init__(self, trouble: BridgeError, fix: str = "") -> None:
        super().__init__(trouble.detail)
        self.trouble = trouble
        self.fix = fix or _FIXES.get(trouble.code, "see the log of the remote broker")


class TrialStep(TypedDict):
    """One step of a test of a connection."""

    name: Annotated[str, one_of(STEPS)]
    ok: Annotated[bool | None, about("null: not tried, because of the step before")]
    detail: str
    fix: Annotated[str, about("what to do; empty where nothing is wrong")]
    seconds: Seconds


class BridgeTrial(TypedDict):
    """A test of a connection to a remote broker."""

    ok: bool
    server: str
    delivery: Delivery
    seconds: Seconds
    steps: list[TrialStep]


class ConnectionStep(NamedTuple):
    """One step. `ok` is None where it was not tried or has nothing to say; `seconds` is how long it took."""

    name: str
    ok: bool | None
    detail: str
    fix: str = ""
    seconds: float = 0.0

    def shown(self) -> TrialStep:
        """The step as it is replied."""
        return {
            "name": self.name,
            "ok": self.ok,
            "detail": self.detail,
            "fix": self.fix,
            "seconds": self.seconds,
        }


class Trial:
    """One test of `remote`, and of the flow to its `queue` if one is named. `sender` is the broker's name."""

    def __init__(self, remote: Remote, queue: str | None, sender: str) -> None:
        self._remote = remote
        self._queue = queue
        self._sender = f"{sender}~trial{secrets.token_hex(4)}"
        self._steps: list[ConnectionStep] = []
        self._tls: ssl.SSLContext | None = None
        self._link: Link | None = None

    async def run(self) -> BridgeTrial:
        """All steps up to the first that fails. Of several hosts, those at the first that
        accepts the login, or else at the last."""
        began = time.monotonic()
        names = [DNS, TCP, *([TLS] if self._remote.uses_tls else [])]
        names += [WEBSOCKET] if self._remote.protocol in ("ws", "wss") else []
        names += [LOGIN, SYNC, TARGET]
        actions: dict[str, Callable[[], Awaitable[str]]] = {
            DNS: self._resolve,
            TCP: self._connect,
            TLS: self._trust,
            WEBSOCKET: self._upgrade,
            LOGIN: self._log_in,
        }
        for remote in self._remote.alternatives:
            self._remote = remote
            self._steps.clear()
            with contextlib.suppress(Failed, TimeoutError):
                async with asyncio.timeout(LONGEST_S):
                    try:
                        for name, act in actions.items():
                            if name in names:
                                await self._take(name, act)
                        await self._ask_for_rights()
                    finally:
                        await self._leave()
            if self._link is not None:
                break
        done = {step.name for step in self._steps}
        self._steps += [ConnectionStep(name, None, _SKIPPED) for name in names if name not in done]
        headers = self._link.connection.headers if self._link is not None else None
        return {
            "ok": all(step.ok is not False for step in self._steps) and self._link is not None,
            "server": headers.get("server", "") if headers is not None else "",
            "delivery": None if headers is None else _delivery(is_mom="mom-bridge" in headers),
            "seconds": round(time.monotonic() - began, 3),
            "steps": [step.shown() for step in self._steps],
        }

    async def _take(self, name: str, step: Callable[[], Awaitable[str]]) -> None:
        """One step. Raises Failed after it was noted."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(STEP_S):
                detail = await step()
        except Failed as failed:
            self._note(name, began, ok=False, detail=failed.trouble.detail, fix=failed.fix)
            raise
        except (OSError, ConnectionLost, Refused, ValueError) as error:
            trouble = troubles.of_connecting(error, self._remote.ca_file)
            why = Failed(trouble, self._mend_login(error) if trouble.code == troubles.LOGIN else "")
            self._note(name, began, ok=False, detail=why.trouble.detail, fix=why.fix)
            raise why from error
        self._note(name, began, ok=True, detail=detail)

    def _mend_login(self, error: Exception) -> str:
        """The fix of a refused login; empty if there is no better advice than the usual."""
        code, user = getattr(error, "code", ""), self._remote.user
        if code == "rate-limited":
            return (
                f"wait; this password was not looked at, because {user} came with wrong ones from here: see "
                "which other bridge or program logs in as the same user, or give each a user of its own"
            )
        if code == "not-allowed":
            return f"allow {user or 'all users'} to log in at the remote broker"
        return "" if user else _NO_USER

    def _note(self, name: str, began: float, *, ok: bool, detail: str, fix: str = "") -> None:
        self._steps.append(ConnectionStep(name, ok, detail, fix, round(time.monotonic() - began, 3)))

    # ------------------------------------------------------------------ the way there

    async def _resolve(self) -> str:
        loop, remote = asyncio.get_running_loop(), self._remote
        found = await loop.getaddrinfo(remote.hostname, remote.port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        if addresses == [remote.hostname]:
            return f"{remote.hostname} is an address: there is nothing to be looked up"
        return f"{remote.hostname} is {', '.join(addresses[:5])}"

    async def _connect(self) -> str:
        _, writer = await asyncio.open_connection(self._remote.hostname, self._remote.port)
        address = writer.get_extra_info("peername")
        await _close(writer)
        return f"connected to {address[0]} port {address[1]}"

    async def _trust(self) -> str:
        remote = self._remote
        try:
            self._tls = await asyncio.to_thread(tls_context, remote.ca_file or None)
        except OSError as error:
            raise Failed(BridgeError(troubles.CONFIG, str(error))) from error
        try:
            _, writer = await asyncio.open_connection(remote.hostname, remote.port, ssl=self._tls)
        except ssl.SSLCertVerificationError as error:
            raise await self._untrusted(error) from error
        except ssl.SSLError as error:
            detail = f"no TLS at this port: {(error.reason or str(error)).lower().replace('_', ' ')}"
            fix = "correct port, or take stomp or ws where the remote broker has no TLS"
            raise Failed(BridgeError(troubles.TLS, detail), fix) from error
        tls = writer.get_extra_info("ssl_object")
        certificate, version = tls.getpeercert(True), tls.version()
        await _close(writer)
        return f"{version}; {_about(certificate)}"

    async def _untrusted(self, error: ssl.SSLCertVerificationError) -> Failed:
        remote = self._remote
        blind = ssl.create_default_context()
        blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
        about = ""
        with contextlib.suppress(OSError, ValueError):
            _, writer = await asyncio.open_connection(remote.hostname, remote.port, ssl=blind)
            about = f"; it is {_about(writer.get_extra_info('ssl_object').getpeercert(True))}"
            await _close(writer)
        fix = "name the authority that signed it in ca_file"
        if "mismatch" in error.verify_message.lower():
            fix = "set hostname to a name in the certificate"
        elif "expired" in error.verify_message:
            fix = "give the remote broker a new certificate"
        return Failed(BridgeError(troubles.TLS, f"not trusted: {error.verify_message}{about}"), fix)

    async def _upgrade(self) -> str:
        transport = await open_transport(self._remote.address, self._tls)
        await transport.close()
        return f"a WebSocket at {self._remote.path}"

    # ------------------------------------------------------------------ rights

    async def _log_in(self) -> str:
        remote = self._remote

        async def opener(address: str) -> Transport:
            return await open_transport(address, self._tls)

        if remote.config_error:
            raise Failed(
                BridgeError(troubles.CONFIG, remote.config_error), "set the password of the bridge again"
            )
        hello = {"host": remote.host, "mom-bridge": self._sender, "mom-soft-errors": "true"}
        if remote.user:
            hello |= {"login": remote.user, "passcode": remote.password}
        connection = Connection(heart_beat_s=(0, 0), limits=LIMITS)
        self._link = await Link.open(remote.address, opener, connection, hello)
        headers = self._link.connection.headers
        server = headers.get("server") or "a broker without a name"
        sure = "another MOM: exactly once" if "mom-bridge" in headers else "no MOM: at least once"
        who = f"as {remote.user}" if remote.user else "without a user"
        return f"logged in {who} at {server}, STOMP {self._link.connection.version}; {sure}"

    async def _ask_for_rights(self) -> None:
        assert self._link is not None
        if "mom-bridge" not in self._link.connection.headers:
            self._steps.append(ConnectionStep(SYNC, None, "a foreign broker needs none"))
            detail = "a foreign broker checks permissions when a message is sent; a test sends none"
            self._steps.append(ConnectionStep(TARGET, None, detail))
            return
        began = time.monotonic()
        refused = await self._begin()
        trouble = troubles.from_refusal(refused) if refused is not None else None
        if trouble is not None and trouble.code == troubles.AUTH_SYNC_QUEUE:
            fix = f"allow {self._who} to send to and receive from {SYNC_QUEUE} at the remote broker"
            self._note(SYNC, began, ok=False, detail=trouble.detail, fix=fix)
            raise Failed(trouble, fix)
        self._note(SYNC, began, ok=True, detail=f"{self._who} may send to and receive from {SYNC_QUEUE}")
        if self._queue is None:
            self._steps.append(
                ConnectionStep(TARGET, None, "no queue is named; name one to ask for the right to it")
            )
        elif trouble is None:
            self._note(TARGET, began, ok=True, detail=f"{self._who} may send to {self._queue}")
        else:
            fix = f"allow {self._who} to send to {self._queue} at the remote broker"
            if trouble.code != troubles.AUTH_TARGET_QUEUE:
                fix = f"see what is set for {self._queue} at the remote broker"
            self._note(TARGET, began, ok=False, detail=trouble.detail, fix=fix)
            raise Failed(trouble, fix)

    @property
    def _who(self) -> str:
        return self._remote.user or "an anonymous user"

    async def _begin(self) -> Refused | None:
        """Begin a flow of a sender that there is not, and end it; the refusal, if it was refused."""
        link = self._link
        assert link is not None
        target = self._queue or SYNC_QUEUE
        headers = {
            "destination": f"/queue/{SYNC_QUEUE}",
            "id": _FLOW,
            "receipt": _FLOW,
            "mom-source": Forwarded(self._remote.name, target).name,
            "mom-target": f"/queue/{target}",
        }
        link.write(link.connection.encode(wire.SUBSCRIBE, headers))
        try:
            async with asyncio.timeout(STEP_S):
                refused = await _answer(link)
        except TimeoutError:
            return Refused("timeout", f"no answer within {STEP_S:g} s", {})
        except Refused as error:
            return error
        except ConnectionLost as error:
            return Refused("lost", str(error), {})
        if refused is None:
            link.write(link.connection.encode(wire.UNSUBSCRIBE, {"id": _FLOW}))
        return refused

    async def _leave(self) -> None:
        if self._link is not None:
            with contextlib.suppress(OSError, ConnectionLost):
                self._link.write(self._link.connection.disconnect("parting"))
                await self._link.close()


class _Answered(Exception):
    """The broker answered."""

    def __init__(self, refused: Refused | None) -> None:
        super().__init__()
        self.refused = refused


async def _answer(link: Link) -> Refused | None:
    """The refusal of the flow, None when it has begun. Raises Refused and ConnectionLost."""

    def take(frames: list[Frame | AckRun]) -> None:
        for frame in frames:
            if isinstance(frame, Frame) and frame.command is wire.MESSAGE:
                if frame.headers.get("subscription") == REFUSED_SUBSCRIPTION:
                    raise _Answered(Refused.from_frame(frame.headers, frame.body))
                raise _Answered(None)

    try:
        await link.run(take)
    except _Answered as answered:
        return answered.refused
    raise ConnectionLost("the broker ended the connection")


def _delivery(*, is_mom: bool) -> Delivery:
    return EXACTLY_ONCE if is_mom else AT_LEAST_ONCE


def _about(certificate: bytes) -> str:
    """Whom a certificate (DER) is for, who signed it, and until when it holds."""
    found = x509.load_der_x509_certificate(certificate)
    with contextlib.suppress(x509.ExtensionNotFound):
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        texts = [str(name.value) for name in names if isinstance(name, (x509.DNSName, x509.IPAddress))]
        if texts:
            return _sentence(", ".join(texts[:5]), found)
    return _sentence(found.subject.rfc4514_string(), found)


def _sentence(whom: str, found: x509.Certificate) -> str:
    until = found.not_valid_after_utc
    return f"a certificate for {whom}, signed by {found.issuer.rfc4514_string()}, good until {until:%Y-%m-%d}"


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1.0):
            await writer.wait_closed()


async def try_connection(remote: Remote, queue: str | None, sender: str) -> BridgeTrial:
    """Test the connection to a remote broker, and the rights of the flow to one of its queues."""
    return await Trial(remote, queue, sender).run()
