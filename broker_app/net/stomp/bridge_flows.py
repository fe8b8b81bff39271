"""What a session does for the bridge of another broker: flows, and what is forwarded in them.

| frame | header | meaning |
|---|---|---|
| CONNECT | `mom-bridge` | who forwards: its name, `~` and the tag of its journal |
| SUBSCRIBE to the sync queue | `mom-source`, `mom-target` | begins a flow: from which queue to which |
| SEND | `mom-flow`, `receipt` | one message of the flow, and its position there |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker_app.core import commands as c
from broker_app.core.destination import Destination, parse
from broker_app.core.errors import Refused
from broker_app.core.message import Envelope
from broker_app.core.model import Peer
from broker_app.core.offset import Flow
from broker_app.core.sync_queue import SYNC_ADDRESS
from broker_app.net.policy.access import Access, Client
from broker_app.rules.event import RECEIVE, SEND
from mom_client.stomp.frame import Headers

SENDER, SOURCE, TARGET, FLOW = "mom-bridge", "mom-source", "mom-target", "mom-flow"
#: what CONNECTED says to a bridge: this is how flows are spoken of here
DIALECT: Final = "1"
#: and how many bytes a body may have, for a larger one ends the connection
MAX_BODY: Final = "mom-max-body"
_SYNC: Final = parse(SYNC_ADDRESS)


class Bridged:
    """The bridge of `sender` behind `peer`. `client` is who it logged in as."""

    def __init__(self, sender: str, peer: Peer, client: Client, access: Access) -> None:
        self._sender = sender
        self._peer = peer
        self._client = client
        self._access = access
        #: messages that came and are not handed over yet, by flow
        self._runs: dict[str, list[c.Entry]] = {}

    def begin(self, given: Headers, id: str, target: Destination, receipt: bytes | None) -> c.BeginFlow:
        """What a SUBSCRIBE that has `mom-source` asks for. Refused names the right that is missing."""
        for right, destination in _rights(target):
            self._access.check(self._client, right, destination)
        return c.BeginFlow(self._peer, id, self._sender, given[SOURCE], target.address, receipt)

    def check_plan(self, given: Headers) -> str:
        """The flow that a SEND belongs to, which its client may send in. Raises Refused."""
        if not given[FLOW]:
            raise Refused("invalid", f"header {FLOW} is empty; it is the id of the flow's SUBSCRIBE")
        if "transaction" in given:
            raise Refused("invalid", "a message of a flow cannot be part of a transaction")
        self._access.check(self._client, SEND, _SYNC)
        return given[FLOW]

    def take(self, flow: str, envelope: Envelope, body: bytes, receipt: bytes | None) -> None:
        """One message of a flow."""
        run = self._runs.get(flow)
        if run is None:
            run = self._runs[flow] = []
        run.append((envelope, body, receipt))

    def hand_over(self) -> Iterator[c.Forward]:
        """What came since the last call. Flows are independent of each other."""
        runs, self._runs = self._runs, {}
        for flow, entries in runs.items():
            receipts = [receipt for _, _, receipt in entries]
            try:
                positions = list(map(int, receipts))
            except (TypeError, ValueError):
                positions = list(map(_position, receipts))
            yield c.Forward(self._peer, flow, entries, positions)

    def revoked(self, flow: Flow) -> Refused | None:
        """Why a flow may not go on, by the policy of the moment; None when it may."""
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
    """What a flow to `target` needs."""
    return (RECEIVE, _SYNC), (SEND, _SYNC), (SEND, target)


def _position(receipt: bytes | None) -> int:
    """The position that a receipt says, 0, which is none, for one that says nothing of the kind."""
    try:
        return int(receipt or b"")
    except ValueError:
        return 0
