"""The flows of a bridge of another broker, and the messages forwarded in them.

| frame | header | meaning |
|---|---|---|
| CONNECT | `mom-bridge` | the sender: its name, `~` and the tag of its journal |
| SUBSCRIBE to the sync queue | `mom-source`, `mom-target` | begins a flow: its source and target queue |
| SEND | `mom-flow`, `receipt` | one message of the flow, and its position there |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.destination import Destination, parse
from broker_app.core.message import Envelope
from broker_app.core.model import Peer
from broker_app.core.remote.offset import Flow
from broker_app.core.remote.sync_queue import SYNC_ADDRESS
from broker_app.net.policy.access import Access, Client
from broker_app.rules.event import RECEIVE, SEND
from mom_client.stomp.frame import Headers

SENDER, SOURCE, TARGET, FLOW = "mom-bridge", "mom-source", "mom-target", "mom-flow"
#: version of the flow protocol, sent to a bridge in CONNECTED
DIALECT: Final = "1"
#: the largest body, in bytes; a larger one would end the connection
MAX_BODY: Final = "mom-max-body"
_SYNC: Final = parse(SYNC_ADDRESS)


class Bridged:
    """The session of a bridge: of the broker `sender`, logged in as `client`."""

    def __init__(self, sender: str, peer: Peer, client: Client, access: Access) -> None:
        self._sender = sender
        self._peer = peer
        self._client = client
        self._access = access
        #: messages that are not submitted yet, by flow
        self._runs: dict[str, list[c.Entry]] = {}

    def begin(self, given: Headers, id: str, target: Destination, receipt: bytes | None) -> c.BeginFlow:
        """Return the command for a SUBSCRIBE with `mom-source`. Raises Refused if a right is missing."""
        for right, destination in _rights(target):
            self._access.check(self._client, right, destination)
        return c.BeginFlow(self._peer, id, self._sender, given[SOURCE], target.address, receipt)

    def check_plan(self, given: Headers) -> str:
        """Return the flow of a SEND. Raises Refused if it has none, or if the client may not send in it."""
        if not given[FLOW]:
            raise Refused("invalid", f"header {FLOW} is empty; it is the id of the flow's SUBSCRIBE")
        if "transaction" in given:
            raise Refused("invalid", "a message of a flow cannot be part of a transaction")
        self._access.check(self._client, SEND, _SYNC)
        return given[FLOW]

    def take(self, flow: str, envelope: Envelope, body: bytes, receipt: bytes | None) -> None:
        """Add one message of a flow."""
        run = self._runs.get(flow)
        if run is None:
            run = self._runs[flow] = []
        run.append((envelope, body, receipt))

    def hand_over(self) -> Iterator[c.Forward]:
        """Yield the messages since the last call, by flow. Flows are independent of each other."""
        runs, self._runs = self._runs, {}
        for flow, entries in runs.items():
            receipts = [receipt for _, _, receipt in entries]
            try:
                positions = list(map(int, receipts))
            except (TypeError, ValueError):
                positions = list(map(_position, receipts))
            yield c.Forward(self._peer, flow, entries, positions)

    def revoked(self, flow: Flow) -> Refused | None:
        """The refusal if the current policy does not allow a flow any more; else None."""
        found = (
            self._access.refusal(self._client, right, destination)
            for right, destination in _rights(parse(flow.target))
        )
        revoked = next(filter(None, found), None)
        if revoked is None:
            return None
        detail = f"{revoked.detail}; flow {flow.id} is broken"
        return Refused(revoked.code, detail, **revoked.facts, subscription=flow.id)


def _rights(target: Destination) -> tuple[tuple[str, Destination], ...]:
    """The rights that a flow to `target` needs."""
    return (RECEIVE, _SYNC), (SEND, _SYNC), (SEND, target)


def _position(receipt: bytes | None) -> int:
    """The position in a receipt header; 0, which is none, if it is not a number."""
    try:
        return int(receipt or b"")
    except ValueError:
        return 0
