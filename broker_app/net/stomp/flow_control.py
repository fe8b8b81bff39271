"""Flow control of a session: the reasons to read nothing from the client, and a client that takes nothing."""

from __future__ import annotations

from typing import Final

from broker_app.base.rate_limit import RateLimit
from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.net.stomp.conversation import AUTHENTICATING, CLOSING, OPEN, Conversation

#: reasons to read nothing of a client for a while; bits. UNREAD: what was received has to be read first;
#: SUSPENDED: the broker is paused; LEAVING: it is about to hand over
ENGINE_FULL, LOGIN, THROTTLED, TOO_FAST, HELD, UNREAD, SUSPENDED, LEAVING = 1, 2, 4, 8, 16, 32, 64, 128
_ALL_OTHERS: Final = ~UNREAD
#: seconds; a client that would have to wait longer to keep within its rate limit is refused
TOO_FAST_S = 10.0


class FlowControl:
    """Pauses and resumes reading from one client. The engine calls `writable`; the session reads on in a
    later turn of the loop, when what was received takes longer than one, and nothing else forbids it."""

    __slots__ = ("_conversation", "_is_scheduled", "_rate_limit", "reasons", "stuck_since")

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._is_scheduled = False
        self._rate_limit: RateLimit | None
        #: the reasons to read nothing now; bits
        self.reasons = 0
        #: since when (monotonic) the client takes nothing, or is to disconnect; 0.0: it takes what is written
        self.stuck_since = 0.0
        self.configure()

    def configure(self) -> None:
        """Apply changed settings."""
        config = self._conversation.sessions.config
        frames, bytes_ = config.max_frames_per_second, config.max_bytes_per_second
        now = self._now()
        self._rate_limit = RateLimit(frames, bytes_, now) if frames or bytes_ else None

    def received(self, frames: int, size: int) -> Refused | None:
        """Count what was read, and pause reading if it was too fast. Returns why it was much too fast."""
        conversation = self._conversation
        refusal = None
        if self._rate_limit is not None and conversation.state < CLOSING:
            refusal = self._limit_rate(self._rate_limit, frames, size)
        engine = conversation.sessions.engine
        if engine.must_wait(conversation.peer) and conversation.state == OPEN and refusal is None:
            self.pause(ENGINE_FULL)
            engine.notify_when_writable(self)
        return refusal

    def _limit_rate(self, limit: RateLimit, frames: int, size: int) -> Refused | None:
        conversation = self._conversation
        wait_s = limit.spend(frames, size, self._now())
        if wait_s > TOO_FAST_S:
            config = conversation.sessions.config
            return Refused(
                "rate-limited",
                f"{frames} frames of {size} bytes were received at once; a connection may send "
                f"{config.max_frames_per_second or 'any number of'} frames and "
                f"{config.max_bytes_per_second or 'any number of'} bytes a second",
            )
        if wait_s:
            self.pause(TOO_FAST)
            conversation.sessions.environment.call_later(wait_s, self._rate_recovered)
        return None

    def _rate_recovered(self) -> None:
        self.resume(TOO_FAST)

    def writable(self) -> None:
        """The engine has room again; what the client sent may still be left."""
        engine = self._conversation.sessions.engine
        if engine.must_wait(self._conversation.peer):
            engine.notify_when_writable(self)
        else:
            self.resume(ENGINE_FULL)

    def throttle(self, on: bool) -> None:
        """Read nothing while too much of the client is blocked in the core."""
        if on:
            self.pause(THROTTLED)
        else:
            self.resume(THROTTLED)

    def hold(self, on: bool) -> None:
        """Read nothing while too much of the client is held by an interceptor."""
        if on:
            self.pause(HELD)
        else:
            self.resume(HELD)

    def leave(self, on: bool) -> None:
        """Read nothing while the broker is about to hand over."""
        if on:
            self.pause(LEAVING)
        else:
            self.resume(LEAVING)

    def suspend(self) -> None:
        """Read nothing and deliver nothing while the broker is paused."""
        peer = self._conversation.peer
        if self._conversation.state in (AUTHENTICATING, OPEN) and not peer.suspended:
            peer.suspended = True
            self.pause(SUSPENDED)
            self._conversation.submit(c.Pause(peer))

    def end_suspension(self, *, draining: bool) -> None:
        """Read again; deliver again to a client that takes what is written, and is not draining."""
        peer = self._conversation.peer
        if peer.suspended:
            peer.suspended = False
            self.resume(SUSPENDED)
            if self._conversation.state < CLOSING and not (draining or self.stuck_since):
                self._conversation.submit(c.Resume(peer))

    def pause(self, reason: int) -> None:
        """Stop reading until no reason is left."""
        if not self.reasons:
            self._conversation.transport.pause_reading()
        self.reasons |= reason

    def resume(self, reasons: int) -> None:
        """Remove reasons; reading continues when none is left."""
        if not self.reasons & reasons:
            return
        self.reasons &= ~reasons
        if self.reasons == UNREAD:
            self._schedule()
        if not self.reasons:
            self._conversation.last_received_s = self._now()  # nothing was read meanwhile
            if self._conversation.state < CLOSING:
                self._conversation.transport.resume_reading()

    def resume_hung_up(self) -> None:
        """Read what is left of a client that will send no more."""
        self.resume(self.reasons & _ALL_OTHERS)

    def unread(self, is_left: bool) -> None:
        """Read nothing more before the rest of what was received is read, in a later turn of the loop."""
        if is_left:
            self.pause(UNREAD)
            if self.reasons == UNREAD:
                self._schedule()
        else:
            self.resume(UNREAD)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._conversation.sessions.environment.call_later(0.0, self._next_turn)

    def _next_turn(self) -> None:
        self._is_scheduled = False
        if self.reasons == UNREAD:  # else `resume` schedules it again
            self._conversation.session.read_on()

    def congested(self) -> None:
        """The client does not take what was written: deliver nothing more to it."""
        self.stuck_since = self._now()
        if self._conversation.state == OPEN:
            self._conversation.submit(c.Pause(self._conversation.peer))

    def uncongested(self, *, draining: bool) -> None:
        """The client takes data again; one that is draining still gets no deliveries."""
        if self._conversation.state == OPEN:
            self.stuck_since = 0.0
            if not (draining or self._conversation.peer.suspended):
                self._conversation.submit(c.Resume(self._conversation.peer))

    def expect_end(self) -> None:
        """From now on the client has `STUCK_S` to take what is written, and to disconnect."""
        self.stuck_since = self.stuck_since or self._now()

    def restart_end(self) -> None:
        """Like `expect_end`, with the whole `STUCK_S` from now on."""
        self.stuck_since = self._now()

    def is_stuck(self, now: float) -> bool:
        """True if the client has taken nothing for too long."""
        return bool(self.stuck_since) and now - self.stuck_since > self._conversation.sessions.STUCK_S

    def _now(self) -> float:
        return self._conversation.sessions.environment.monotonic()
