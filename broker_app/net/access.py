"""Who may do what. For now: whoever is logged in may use every destination but the broker's own."""

from __future__ import annotations

from broker_app.core.destination import Destination, is_reserved
from broker_app.core.errors import Refused
from broker_app.net.login import Identity

SEND, RECEIVE = "send", "receive"


def check(identity: Identity, deed: str, destination: Destination) -> None:
    """Refused("not-allowed") when `identity` may not do `deed` to `destination`."""
    if deed == SEND and is_reserved(destination.name):
        raise Refused(
            "not-allowed",
            f"{identity.user} may not send to {destination.address}: "
            "names that begin with $ are the broker's own",
        )
