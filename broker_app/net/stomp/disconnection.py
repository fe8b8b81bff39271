"""Refusals of a session, and its end: by DISCONNECT, by ERROR, drained, or when the broker stops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.net.stomp import bridge_flows
from broker_app.net.stomp.conversation import CLOSED, CLOSING, ENDED, LEAVE, OPEN, Conversation
from broker_app.net.stomp.flow_control import FlowControl
from broker_app.net.stomp.login import negotiation
from broker_app.telemetry import client_events
from mom_client.stomp import frame as wire
from mom_client.stomp.errors import Malformed
from mom_client.stomp.frame import Frame

#: the problem of a client that an operator disconnected
ENDED_BY_OPERATOR: Final = "disconnected"
#: the receipt of the session's own Disconnect; no receipt of a client contains a NUL
LAST_RECEIPT: Final = b"\0leave"

_OF_TRANSACTIONS: Final = frozenset((wire.BEGIN, wire.COMMIT, wire.ABORT))

_HTTP_TEXT = (
    b"This port speaks STOMP. The web console and the REST API are on the web port (8000 by default).\n"
)
_HTTP_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_HTTP_TEXT), _HTTP_TEXT)
)


class Disconnection:
    """Refuses frames and ends the session, after the answers to everything that was received before."""

    __slots__ = (
        "_conversation",
        "_drain",
        "_final_error",
        "_flow_control",
        "_leave_receipt",
        "_refusals_sent",
    )

    def __init__(self, conversation: Conversation, flow_control: FlowControl) -> None:
        self._conversation = conversation
        self._flow_control = flow_control
        self._refusals_sent = 0
        #: the receipt header of DISCONNECT
        self._leave_receipt: bytes | None = None
        #: the ERROR that ends the session, with its receipt; sent when all answers before it are
        self._final_error: tuple[Refused, bytes | None] | None = None
        #: the reason to end it when nothing is unsettled any more, and when it ends at the latest (monotonic)
        self._drain: tuple[str, float] | None = None

    @property
    def is_draining(self) -> bool:
        """True if the client receives nothing new, and is disconnected when it has settled everything."""
        return self._drain is not None

    # ------------------------------------------------------------------ by the client

    def leave(self, receipt: bytes | None) -> None:
        """DISCONNECT: answered in its turn, after everything that was received before is stored."""
        conversation = self._conversation
        conversation.follow(LEAVE)
        conversation.close_reason = client_events.LEFT
        self._leave_receipt = receipt
        conversation.submit(c.Disconnect(conversation.peer, LAST_RECEIPT))

    def last_receipt(self) -> bytes | None:
        """The receipt of DISCONNECT, if it was requested and nothing before it was refused."""
        peer = self._conversation.peer
        return None if peer.strict and peer.refusals else self._leave_receipt

    def finish(self) -> None:
        """End the session: everything before its end is answered."""
        if self._final_error is not None:
            self.send_error(*self._final_error)
        else:
            self._close()

    # ------------------------------------------------------------------ by the broker

    def refuse(self, refusal: Refused, receipt: bytes | None, *, soft: bool) -> None:
        """Refuse one frame (`soft`, for clients that asked for it), or end the session by an ERROR.

        The ERROR is sent after the answers to everything that was received before.
        """
        conversation = self._conversation
        engine_runs = conversation.sessions.engine.ended is None
        if soft and conversation.soft_errors:
            self._send_refusal(refusal, receipt)
        elif conversation.state == OPEN and engine_runs:
            conversation.follow(LEAVE)
            self._final_error = refusal, receipt
            self._flow_control.restart_end()
            conversation.submit(c.Disconnect(conversation.peer, LAST_RECEIPT, abandon=True))
        elif conversation.state == CLOSING and engine_runs:
            self._final_error = self._final_error or (refusal, receipt)
            self._flow_control.expect_end()
        else:
            self.send_error(refusal, receipt)

    def refuse_frame(self, frame: Frame, refusal: Refused) -> None:
        """Refuse one frame."""
        conversation = self._conversation
        is_open = conversation.state == OPEN
        transaction = frame.headers.get("transaction")
        stays = is_open and conversation.soft_errors
        if stays and transaction is not None and frame.command not in _OF_TRANSACTIONS:
            # A client that stays connected must not commit the rest of it.
            conversation.submit(c.Abort(conversation.peer, transaction))
        flow = frame.headers.get(bridge_flows.FLOW)
        if is_open and conversation.bridge is not None and flow:
            # Answered in its turn, so that nothing of the flow overtakes it.
            conversation.submit(c.BreakFlow(conversation.peer, flow, refusal, frame.receipt))
            return
        if stays:
            self._send_refusal(refusal, frame.receipt, frame.headers.get("correlation-id", ""))
        else:
            self.refuse(refusal, frame.receipt, soft=False)

    def malformed(self, malformed: Malformed) -> None:
        """End the session of a client that sent an invalid frame."""
        if malformed.code == "http-on-stomp-port":
            self._conversation.write(_HTTP_ANSWER)
            self.end()
            return
        self.refuse(Refused(malformed.code, malformed.detail), malformed.receipt, soft=False)

    def send_refusals(self, refusals: Sequence[tuple[bytes | None, Refused]]) -> None:
        """Refuse frames of a client that stays connected, each with its receipt."""
        if self._conversation.state != CLOSED:
            frames = [self._refusal(refusal, receipt) for receipt, refusal in refusals]
            self._conversation.write(b"".join(frames))

    def _send_refusal(self, refusal: Refused, receipt: bytes | None, correlation_id: str = "") -> None:
        if self._conversation.state != CLOSED:
            self._conversation.write(self._refusal(refusal, receipt, correlation_id))

    def _refusal(self, refusal: Refused, receipt: bytes | None, correlation_id: str = "") -> bytes:
        """The MESSAGE that refuses one frame, which had this receipt and correlation id."""
        self._note(refusal)
        self._refusals_sent += 1
        id = f"refused-{self._refusals_sent}"
        return self._conversation.renderer.soft_refusal(refusal, receipt, id, correlation_id)

    def send_error(self, refusal: Refused, receipt: bytes | None) -> None:
        """Refuse by an ERROR, and end the session."""
        conversation = self._conversation
        if conversation.state == CLOSED:
            return
        self._note(refusal)
        conversation.close_reason = str(refusal)
        if refusal.code != "not-connected":  # probes of ports, such as that of `mom doctor`, end so
            who = f"{conversation.transport.peer_name} {conversation.peer.user}".rstrip()
            conversation.sessions.log("%s refused: %s", who, refusal)
        extra = (
            (("version", ",".join(reversed(negotiation.VERSIONS))),)
            if isinstance(refusal, negotiation.UnsupportedVersion)
            else ()
        )
        conversation.write(conversation.renderer.error(refusal, receipt, extra))
        self.end()

    def _note(self, refusal: Refused) -> None:
        self._conversation.frames_out += 1
        if refusal.code != ENDED_BY_OPERATOR:
            by = str(refusal.facts.get("decided_by", ""))
            self._conversation.note(client_events.REFUSED, refusal.detail, refusal.code, by)

    def shut_down(self, refusal: Refused) -> None:
        """Report to the client why the broker stops, and end the session."""
        conversation = self._conversation
        conversation.close_reason = refusal.detail
        if conversation.state == OPEN:
            conversation.write(conversation.renderer.error(refusal, None))
        self.end()

    def end(self) -> None:
        """End the session: nothing more is received or sent."""
        conversation = self._conversation
        if conversation.state == OPEN:
            conversation.submit(c.Disconnect(conversation.peer))
        conversation.follow(ENDED)
        self._close()

    def _close(self) -> None:
        """End the connection when the client has taken what is written."""
        self._flow_control.expect_end()
        self._conversation.transport.close()

    # ------------------------------------------------------------------ drained by an operator

    def drain(self, reason: str, within_s: float) -> None:
        """Deliver nothing new; end when nothing is unsettled and no transaction open, or after `within_s`."""
        conversation = self._conversation
        if conversation.state == OPEN:
            self._drain = reason, conversation.sessions.environment.monotonic() + within_s
            conversation.submit(c.Pause(conversation.peer))

    def drained(self, now: float) -> Refused | None:
        """The refusal that ends a client which is drained by now."""
        peer = self._conversation.peer
        if self._drain is None or self._conversation.state != OPEN:
            return None
        reason, latest = self._drain
        if (peer.unsettled or peer.transactions) and now <= latest:
            return None
        return Refused(ENDED_BY_OPERATOR, reason)
