"""A session registers as a service between login and CONNECTED, and may be refused."""

from collections.abc import Callable

import pytest

from broker_app.base.refused import Refused
from broker_app.core.destination import Destination
from broker_app.features.services.origin import Origin
from broker_app.net.stomp.conversation import OPEN
from broker_app.net.stomp.login.registrations import Outcome
from broker_app.reflex.registration import Registration, RegistrationVerdict
from tests.net.test_session import Stage

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:ann\npasscode:x\n%b\n\0"
SEND = b"SEND\ndestination:/queue/a\n\nbody\0"


class Registrar:
    """Keeps what is to be decided; `verdict` is returned at once, None later by the test."""

    def __init__(self) -> None:
        self.verdict: RegistrationVerdict | None = None
        self.asked: list[Registration] = []
        self.done: list[Callable[[RegistrationVerdict], None]] = []
        self.ended: list[Registration] = []
        self.origins: list[Origin | None] = []

    def begin_registration(
        self, registration: Registration, done: Callable[[RegistrationVerdict], None]
    ) -> RegistrationVerdict | None:
        self.asked.append(registration)
        self.done.append(done)
        return self.verdict

    def begin_service(
        self,
        registration: Registration,
        origin: Origin | None,
        done: Callable[[Outcome], None],
        *,
        admin: bool,
    ) -> None:
        self.origins.append(origin)
        self.begin_registration(registration, done)

    def service_of(self, connection: str) -> None:
        return None

    def deregistered(self, registration: Registration) -> None:
        self.ended.append(registration)

    def decide(self, accepted: bool = True) -> None:
        facts = {"reflex": "no-strangers", "reason": "unknown machine"}
        self.done.pop()(
            RegistrationVerdict(accepted, self.asked[-1], "no-strangers", "unknown machine", facts)
        )


@pytest.fixture
def registrar() -> Registrar:
    return Registrar()


@pytest.fixture
def stage(registrar: Registrar) -> Stage:
    stage = Stage()
    stage.registrar = registrar
    return stage


def log_in(stage: Stage, headers: bytes = b"") -> None:
    stage.session.receive(CONNECT % headers)
    stage.checks.pop()(stage.identity, None)


@pytest.mark.parametrize(
    ("headers", "name"),
    [(b"mom-service:stock\nclient-id:c\n", "stock"), (b"client-id:c\n", "c"), (b"", "ann")],
)
def test_the_name_of_a_service_is_that_of_the_header_the_client_or_the_user(
    stage: Stage, registrar: Registrar, headers: bytes, name: str
) -> None:
    log_in(stage, headers)
    (registration,) = registrar.asked
    assert (registration.name, registration.user, registration.transport) == (name, "ann", "stomp")


def test_frames_wait_while_a_registration_is_decided(stage: Stage, registrar: Registrar) -> None:
    log_in(stage)
    stage.session.receive(SEND)
    assert (stage.wire.reading, stage.wire.written, stage.commands) == (False, b"", [])
    registrar.decide()
    assert stage.wire.written.startswith(b"CONNECTED\n")
    assert stage.wire.reading
    assert [type(command).__name__ for command in stage.commands] == ["Publish"]


def test_a_client_whose_registration_is_decided_while_the_broker_is_paused_waits_for_the_end_of_that(
    stage: Stage, registrar: Registrar
) -> None:
    log_in(stage)
    stage.session.receive(SEND)
    stage.session.suspend()
    registrar.decide()
    assert stage.wire.written.startswith(b"CONNECTED\n")
    assert not stage.wire.reading
    assert [type(command).__name__ for command in stage.commands] == ["Pause"]
    stage.session.resume()
    stage.run_timers()
    assert stage.wire.reading
    assert [type(command).__name__ for command in stage.commands] == ["Pause", "Resume", "Publish"]


def test_a_client_that_needs_no_login_check_waits_as_well(stage: Stage, registrar: Registrar) -> None:
    stage.logins.cached = lambda login, passcode: stage.identity
    stage.session.receive(CONNECT % b"" + SEND)
    assert (stage.wire.reading, stage.wire.written, stage.commands) == (False, b"", [])
    registrar.decide()
    assert [type(command).__name__ for command in stage.commands] == ["Publish"]


def test_a_refused_service_receives_the_reason_and_nothing_it_sent_has_an_effect(
    stage: Stage, registrar: Registrar
) -> None:
    log_in(stage)
    stage.session.receive(SEND)
    registrar.decide(accepted=False)
    assert b"registration-refused" in stage.wire.written
    assert b"reason:unknown machine\n" in stage.wire.written
    assert (stage.wire.closed, stage.commands) == (True, [])
    stage.session.lost()
    assert registrar.ended == []


def test_the_end_of_a_session_ends_its_registration(stage: Stage, registrar: Registrar) -> None:
    log_in(stage)
    registrar.decide()
    assert stage.session.conversation.state == OPEN
    stage.session.lost()
    assert registrar.ended == registrar.asked


def test_a_client_that_leaves_before_it_is_accepted_is_deregistered(
    stage: Stage, registrar: Registrar
) -> None:
    log_in(stage)
    stage.session.lost()
    registrar.decide()
    assert registrar.ended == registrar.asked
    assert stage.wire.written == b""


def test_a_service_with_a_name_that_is_too_long_is_refused(stage: Stage) -> None:
    stage.session.receive(CONNECT % (b"mom-service:" + b"x" * 300 + b"\n"))
    assert b"mom-service has 300 characters; at most 255 are allowed" in stage.wire.written


def test_a_service_registers_with_its_properties_and_its_origin(stage: Stage, registrar: Registrar) -> None:
    headers = (
        b"mom-service:stock\nmom-machine:h1\nmom-service-type:shop\nmom-service-events:sold, returned\n"
        b"mom-origin:http://b1:8000,wss://b2/broker/ws\nmom-origin-login:anna\nmom-origin-passcode:secret\n"
    )
    log_in(stage, headers)
    (registration,), (origin,) = registrar.asked, registrar.origins
    assert (registration.machine, registration.type) == ("h1", "shop")
    assert registration.events == ("sold", "returned")
    assert origin == Origin(("ws://b1:8000/ws", "wss://b2/broker/ws"), "anna", "secret")
    registrar.decide()
    assert b"mom-service-callbacks:false\n" in stage.wire.written


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        (b"mom-origin:stomp://b1:61613\n", b"is not the address of a broker"),
        (b"mom-origin:%b\n" % b",".join([b"ws://b1/ws"] * 17), b"at most 16 are allowed"),
        (b"mom-service-events:%b\n" % b",".join([b"e"] * 101), b"at most 100 names"),
    ],
)
def test_wrong_headers_of_a_service_are_refused(stage: Stage, header: bytes, sentence: bytes) -> None:
    stage.session.receive(CONNECT % (b"mom-service:stock\n" + header))
    assert sentence in stage.wire.written


def test_a_user_who_may_not_receive_its_messages_cannot_register_a_service(
    stage: Stage, registrar: Registrar
) -> None:
    def check(client: object, right: str, destination: Destination) -> None:
        raise Refused("not-allowed", f"{right} {destination.address}")

    stage.access.check = check
    log_in(stage, b"mom-service:stock\n")
    assert b"receive /queue/stock" in stage.wire.written
    assert registrar.asked == []
