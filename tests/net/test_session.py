"""A session without sockets, clock or tasks: its time is a number that the test sets."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker_app.base.refused import Refused
from broker_app.config import Config
from broker_app.core.broker import Broker
from broker_app.core.message import MessageIds
from broker_app.features.services.seed_shares import SeedShares
from broker_app.net.auth.login import Identity
from broker_app.net.policy.access import ConnectionInfo
from broker_app.net.stomp.conversation import ACCEPTS, AUTHENTICATING, CLOSED, NEXT, SessionEnvironment
from broker_app.net.stomp.login.registrations import Registrar
from broker_app.net.stomp.session import StompSession
from broker_app.net.stomp.session_registry import OpenRegistrar
from broker_app.rules.event import STOMP
from broker_app.telemetry.client_events import ClientEvents

SEND = b"SEND\ndestination:/queue/a\n\nbody\0"
BEGIN = b"BEGIN\ntransaction:%d\n\n\0"
ACK = b"ACK\nid:1\n\n\0"


class Wire:
    """A transport that keeps what was written."""

    peer_name, connection_info = "tcp 192.0.2.1:1", ConnectionInfo(STOMP)

    def __init__(self) -> None:
        self.written, self.closed, self.reading = b"", False, True

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def authenticated(self) -> None:
        """Nothing is bounded here."""

    def hung_up(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Stage:
    """One session, with the node around it in virtual time."""

    STUCK_S = 60.0

    def __init__(self) -> None:
        self.now = 1000.0
        #: how long each look at the clock takes
        self.look_s = 0.0
        self.environment = SessionEnvironment(
            self._monotonic, lambda: self.now, self._call_later, lambda: "name"
        )
        self.config = Config(max_frames_per_second=100)
        self.commands: list[Any] = []
        self.engine: Any = SimpleNamespace(
            broker=Broker(),
            ended=None,
            full=False,
            must_wait=lambda peer: self.engine.full,
            submit=lambda command, size: self.commands.append(command),
        )
        self.identity = Identity("ann")
        self.logins: Any = SimpleNamespace(cached=lambda login, passcode: None, certified=lambda names: None)
        self.access: Any = SimpleNamespace(check=lambda *what: None, is_admin=lambda identity: False)
        self.ids = MessageIds(1)
        self.client_events = ClientEvents(lambda: self.now)
        self.failover_uris: Callable[[str], Sequence[str]] = lambda listener: []
        self.registrar: Registrar = OpenRegistrar()
        self.seed_shares = SeedShares()
        #: for what is sent to sites only
        self.channels: Any = None
        self.pages: Any = None
        self.websocket_url = ""
        #: for browsers only
        self.requests: Any = None
        self.full = False
        self.checks: list[Callable[..., None]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.wire = Wire()
        self.session = StompSession(self, self.wire)
        self.session.admitted()

    def run(self, work: Any) -> None:
        raise AssertionError("nothing runs in the background here")

    def _call_later(self, seconds: float, function: Callable[[], None]) -> None:
        self.timers.append((self.now + seconds, function))

    def _monotonic(self) -> float:
        self.now += self.look_s
        return self.now

    def run_timers(self) -> None:
        timers, self.timers = self.timers, []
        for _, function in timers:
            function()

    def enter(self, session: Any, identity: Any, client_key: Any) -> None:
        """There are few connections."""

    def join(self, session: Any) -> int:
        return 1

    def leave(self, session: Any) -> bool:
        return True

    def notify(self, event: str, session: Any) -> None:
        """No listener is here."""

    def knows_host(self, host: str) -> bool:
        return True

    def check_often(self, session: Any, beat_s: float) -> None:
        """The test calls `pass_time`."""

    def authenticate(self, login: str, passcode: str, address: str, done: Callable[..., None]) -> None:
        self.checks.append(done)

    def log(self, template: str, *values: object) -> None:
        """Logs are not read here."""

    def pass_time(self, seconds: float, step: float = 0.25) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += step
            for timer in [timer for timer in self.timers if timer[0] <= self.now]:
                self.timers.remove(timer)
                timer[1]()
            self.session.tick(self.now, step)

    def connect(self, heart_beat: str = "0,0") -> None:
        self.session.receive(
            b"CONNECT\naccept-version:1.2\nhost:/\nlogin:ann\npasscode:x\nheart-beat:%b\n\n\0"
            % heart_beat.encode()
        )
        self.checks.pop()(self.identity, None)
        assert self.wire.written.startswith(b"CONNECTED\n")
        self.wire.written = b""


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_client_that_does_not_log_in_is_refused_after_the_time_for_it(stage: Stage) -> None:
    stage.pass_time(stage.config.connect_timeout)
    assert stage.wire.written == b""
    stage.pass_time(1.0)
    assert b"login-timeout" in stage.wire.written
    assert stage.wire.closed


def test_frames_wait_while_a_login_is_checked(stage: Stage) -> None:
    stage.session.receive(b"CONNECT\naccept-version:1.2\nhost:/\nlogin:ann\npasscode:x\n\n\0")
    assert not stage.wire.reading
    stage.session.receive(b"SEND\ndestination:/queue/a\n\nbody\0")
    assert stage.commands == []
    stage.checks.pop()(stage.identity, None)
    assert stage.wire.reading
    assert [type(command).__name__ for command in stage.commands] == ["Publish"]


def test_frames_behind_a_connect_in_pieces_wait_too(stage: Stage) -> None:
    data = b"\n\nCONNECT\naccept-version:1.2\nhost:/\nlogin:ann\npasscode:x\n\n\0" + SEND * 3
    for end in range(20, len(data), 7):
        stage = Stage()
        stage.session.receive(data[:end])
        stage.session.receive(data[end:])
        assert stage.commands == []
        stage.checks.pop()(stage.identity, None)
        assert [len(command.entries) for command in stage.commands] == [3]


def test_what_takes_longer_than_a_turn_waits_for_the_next_ones(stage: Stage) -> None:
    """Each look at the clock takes a second here, so that each turn is over at once."""
    stage.connect()
    stage.config = replace(stage.config, max_frames_per_second=0)
    stage.session.configured()
    stage.look_s = 1.0
    frames = [BEGIN % number + SEND + (ACK + SEND) * 2 for number in range(3)]
    stage.session.receive(b"".join(frames))
    assert [type(command).__name__ for command in stage.commands] == ["Begin"]
    assert not stage.wire.reading, "the rest waits, and nothing more is read"
    stage.session.receive(BEGIN % 3 + SEND)
    turns = 0
    while stage.timers:
        assert not stage.wire.reading
        turns += 1
        stage.run_timers()
    assert stage.wire.reading
    assert turns >= 9, "one for each frame that is not like the last one"
    begun = [command.transaction for command in stage.commands if type(command).__name__ == "Begin"]
    assert begun == ["0", "1", "2", "3"]
    names = "".join(type(command).__name__[0] for command in stage.commands)
    assert names == "BPSPSP" * 3 + "BP"


def test_while_the_engine_is_full_nothing_more_is_taken_of_what_was_received(stage: Stage) -> None:
    stage.connect()
    stage.look_s = 1.0
    stage.engine.full, stage.engine.notify_when_writable = True, lambda flow_control: None
    stage.session.receive(b"".join(BEGIN % number for number in range(3)))
    stage.run_timers()
    assert len(stage.commands) == 1
    stage.engine.full = False
    stage.session._flow_control.writable()
    while stage.timers:
        stage.run_timers()
    assert len(stage.commands) == 3
    assert stage.wire.reading


def test_a_session_that_ends_takes_nothing_more(stage: Stage) -> None:
    stage.connect()
    stage.look_s = 1.0
    stage.session.receive(b"".join(BEGIN % number for number in range(3)))
    stage.session.shutdown(Refused("not-active", "the broker stops"))
    stage.run_timers()
    assert [type(command).__name__ for command in stage.commands] == ["Begin", "Disconnect"]
    assert stage.wire.closed


def test_heart_beats_are_sent_and_expected_as_agreed(stage: Stage) -> None:
    stage.connect("1000,5000")
    agreed_in_s, agreed_out_s = stage.session.heart_beats
    for _ in range(int(2 * agreed_out_s)):
        stage.session.receive(b"\n")
        stage.pass_time(agreed_in_s)
    assert stage.wire.written == b"\n\n"
    stage.session.receive(b"\n")
    stage.pass_time(2 * agreed_in_s)
    assert b"ERROR" not in stage.wire.written
    stage.pass_time(2.0)
    assert [type(command).__name__ for command in stage.commands] == ["Disconnect"]


def test_a_client_above_its_rate_is_not_read_until_it_has_waited(stage: Stage) -> None:
    stage.connect()
    stage.session.receive(b"SEND\ndestination:/queue/a\n\nbody\0" * 300)
    assert not stage.wire.reading
    stage.pass_time(1.5)
    assert not stage.wire.reading
    stage.pass_time(1.0)
    assert stage.wire.reading


def test_every_state_has_its_events_and_frames() -> None:
    assert NEXT.keys() == ACCEPTS.keys() | {AUTHENTICATING}
    reached = {state for events in NEXT.values() for state in events.values()}
    assert reached == NEXT.keys() - {0}
    assert all(events["ended"] == CLOSED for events in NEXT.values())
