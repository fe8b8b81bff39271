"""The operations of clients, as JSON objects with the member `op`.

Every operation may have a `ref`, which is returned with its result (`done` or `problem`); without one only
problems are reported.
"""

from __future__ import annotations

from typing import Annotated, Final, get_args

import msgspec

from broker_app.core.selectors.compiler import MAX_LENGTH
from broker_app.net.http.refusals import unknown
from broker_app.net.http.requests import decode
from broker_app.net.rest.connections.services import OriginRequest
from broker_app.net.rest.messages.parts import Part
from mom_client.channel_parts import MAX_PARTS

#: what a subscription brings: messages, or notifications of them
DELIVER, NOTIFY = "deliver", "notify"
# Described and not validated: the compiler refuses a longer one as what it is.
_Selector = Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": MAX_LENGTH})]
_Text = Annotated[str, msgspec.Meta(max_length=255)]
_Ref = Annotated[str, msgspec.Meta(max_length=64)]


class _Operation(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    op: str
    ref: _Ref | None = None


class Login(_Operation):
    """Log in with a token, or with login and passcode. `client_instance` names the client, the same for all
    its connections; alone, it names one that the handshake has logged in."""

    token: str | None = None
    login: str | None = None
    passcode: str | None = None
    client_instance: _Text = ""


class Subscribe(_Operation):
    """Begin a subscription to a queue or topic. `after` is of notifications: the `event_id` or the `seq`
    of the last one."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    queue: str | None = None
    topic: str | None = None
    mode: str = DELIVER
    credit: int = 10
    selector: _Selector | None = None
    lease_s: float | None = None
    durable: str | None = None
    start: str | None = msgspec.field(default=None, name="from")
    after: int | str | None = None


class Unsubscribe(_Operation):
    """End a subscription; what it holds unsettled is returned."""

    id: str


class Credit(_Operation):
    """Change the credit of a subscription."""

    id: str
    credit: int


class Pending(_Operation):
    """List what waits in the queue of a subscription, behind a position: a number, or `<tag>-<seq>`."""

    id: str
    after: int | str = 0


class Receive(_Operation):
    """Receive messages of a queue by their positions: numbers, or `<tag>-<seq>`. A lease of 0 lasts as long
    as the connection. `exact` asks for header lines and body byte for byte."""

    queue: str
    seqs: Annotated[list[int | str], msgspec.Meta(min_length=1, max_length=1000)]
    lease_s: float | None = None
    exact: bool = False


class Ack(_Operation):
    """Acknowledge a message."""

    receipt: str


class Nack(_Operation):
    """Return a message."""

    receipt: str
    delay_s: float = 0.0
    reason: str = ""
    dead: bool = False


class Extend(_Operation):
    """Renew the lease of a message."""

    receipt: str
    extend_s: float


class Answer(_Operation):
    """Answer the request of another application, whose message has the header `channel-call`: with a body, or
    with several parts; with neither, the handler has none."""

    call: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    body: str | None = None
    body_base64: str | None = None
    parts: Annotated[list[Part], msgspec.Meta(max_length=MAX_PARTS)] | None = None


class Register(_Operation):
    """Register as a service; its messages are those of the queue of its name. At a callback broker `origin`
    is the remote broker of the service."""

    service: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    machine: _Text = ""
    type: _Text = ""
    events: Annotated[list[_Text], msgspec.Meta(max_length=100)] = []
    origin: OriginRequest | None = None


class Deregister(_Operation):
    """End a registration."""

    id: str


class Ping(_Operation):
    """Ask for `done`."""


Operation = (
    Login
    | Subscribe
    | Unsubscribe
    | Credit
    | Pending
    | Receive
    | Ack
    | Nack
    | Extend
    | Answer
    | Register
    | Deregister
    | Ping
)
OPERATIONS: Final[dict[str, type[Operation]]] = {kind.__name__.lower(): kind for kind in get_args(Operation)}


class _Head(msgspec.Struct):
    op: str = ""
    ref: str | None = None


def ref_of(data: bytes) -> str | None:
    """The `ref` of an operation that may be invalid."""
    try:
        ref = msgspec.json.decode(data, type=_Head).ref
    except (msgspec.DecodeError, RecursionError):
        return None
    return ref[:64] if ref is not None else None


def parse(data: bytes) -> Operation:
    """The operation in a JSON object. Raises Refused with the position of an error."""
    op = decode(data, _Head).op
    if op not in OPERATIONS:
        raise unknown("/op", op, OPERATIONS, "operation")
    return decode(data, OPERATIONS[op])
