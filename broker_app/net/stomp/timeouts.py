"""Time limits of a session: login, heart-beats, and frames that were begun."""

from __future__ import annotations

from broker_app.base.refused import Refused
from broker_app.net.stomp.conversation import CONNECTING, OPEN, Conversation
from broker_app.net.stomp.flow_control import FlowControl
from broker_app.net.stomp.login.handshake import Handshake
from mom_client.stomp.parser import Parser

#: time limit for the rest of a frame
PARTIAL_S = 60.0


class Timeouts:
    """Checks the time limits of a session."""

    __slots__ = ("_conversation", "_flow_control", "_handshake", "_overdue", "_parser", "_since")

    def __init__(
        self, conversation: Conversation, parser: Parser, handshake: Handshake, flow_control: FlowControl
    ) -> None:
        self._conversation = conversation
        self._parser = parser
        self._handshake = handshake
        self._flow_control = flow_control
        self._since = conversation.last_received_s
        #: True if a time limit was exceeded at the last check
        self._overdue = False

    def beat_is_due(self, now: float, step: float) -> bool:
        """True if a heart-beat has to be sent before the next check, in `step` seconds."""
        beat_s = self._handshake.beat_out_s
        return bool(beat_s) and now - self._conversation.last_sent_s >= beat_s - step

    def expired(self, now: float, step: float) -> Refused | None:
        """The refusal of a client that was late at this check and the one before.

        One late check is not enough: if the broker itself was stopped, data may lie unread in the socket.
        """
        late = self._late(now, step)
        again, self._overdue = self._overdue, late is not None
        return late if again else None

    def _late(self, now: float, step: float) -> Refused | None:
        state = self._conversation.state
        timeout = self._conversation.sessions.config.connect_timeout
        if state == CONNECTING and now - self._since > timeout:
            return Refused("login-timeout", f"no CONNECT within {timeout:g} s")
        silent = 0.0 if self._flow_control.reasons else now - self._conversation.last_received_s
        beat_s = self._handshake.beat_in_s
        if state == OPEN and beat_s and silent > 2 * beat_s + step:
            detail = f"nothing was received for {silent:.1f} s; a heart-beat every {beat_s:g} s was agreed"
            return Refused("heart-beat-lost", detail)
        if state == OPEN and self._parser.has_partial and silent > PARTIAL_S:
            detail = f"a frame was begun, and its rest was not received within {silent:.0f} s"
            return Refused("frame-timeout", detail)
        return None
