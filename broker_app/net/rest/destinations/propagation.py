"""The knowledge that other brokers of a cluster have of a queue."""

from __future__ import annotations

from typing import Final, Literal

from broker_app.core.broker import Broker
from broker_app.core.model import Queue

#: declared: its settings are in the change record of all brokers. consumers: they know it by its consumers.
#: local: a producer has created it here, and no other broker knows it
Propagation = Literal["declared", "consumers", "local"]
LOCAL: Final = "local"


def propagation_of(broker: Broker, queue: Queue) -> Propagation | None:
    """The way in which a queue is known to the others; None for a broker in no cluster."""
    if broker.cluster_usage.unused is None:
        return None
    if queue.address in broker.turn.policies.exact:
        return "declared"
    return "consumers" if queue.consumers else LOCAL
