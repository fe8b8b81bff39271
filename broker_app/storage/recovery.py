"""Bringing a broker back from its journal, when a node starts and when a journal is repaired without one."""

from broker_app.core.broker import Broker
from broker_app.core.durability.recovery import Recovery
from broker_app.core.message import MessageIds
from broker_app.journal import port


def rebuild(broker: Broker, journal: port.Journal) -> port.OpenResult:
    """Open the journal and replay it into `broker`, which must be new. The caller reports the positions that
    are still needed (`Journal.retain`). Raises the errors of `Journal.open` and `Journal.replay`."""
    opened = journal.open()
    broker.turn.ids = MessageIds(journal.tag)
    recovery = Recovery(broker)
    if opened.snapshot is not None:
        recovery.load(opened.snapshot)
    for batch in journal.replay():
        recovery.apply(batch.destinations, batch.first_position, batch.records)
    recovery.finish(opened.next_position)
    return opened
