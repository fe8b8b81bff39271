"""Frees the journals that a broker held when it died while it took over (`-reset takeover-then-exit`)."""

from __future__ import annotations

import msgspec

from broker_app.config import Config, ConfigError
from broker_app.features.enhanced_cluster.registry import Registry, registry_name
from broker_app.journal.store import Holder
from broker_app.storage.factory import store_at


def free_journals(config: Config) -> list[str]:
    """Give back the leases of other members' journals that are held in the name of this broker, and note that
    others may take these over at once. Returns the names of the journals. Assumes: the broker does not run.
    Blocks. Raises JournalError, and ConfigError for a broker that is no member."""
    if config.cluster_id is None or config.journal is None:
        raise ConfigError("this broker is no member of an enhanced cluster: set cluster_id and journal")
    registry = Registry(store_at(config.journal, registry_name(config.cluster_id)))
    try:
        content = registry.read()
        freed = []
        for seen in content.journals:
            note = seen.note
            if note.member != config.name and _give_back(config, note.journal):
                freed.append(note.journal)
                if note.holder == config.name:
                    registry.write(msgspec.structs.replace(note, state="stopped"))
        for takeover, _ in content.takeovers:
            if takeover.taker == config.name and takeover.result == "running":
                error = f"{config.name} has ended while it took over, and an operator has freed the journal"
                registry.write_takeover(msgspec.structs.replace(takeover, result="failed", error=error))
        return freed
    finally:
        registry.close()


def _give_back(config: Config, journal: str) -> bool:
    """Give back the lease of a journal, if this broker holds it."""
    assert config.journal is not None
    store = store_at(config.journal, journal)
    try:
        lease = store.lease()
        if lease is None or lease.holder.name != config.name or lease.is_released or lease.left_s <= 0:
            return False
        store.acquire(Holder(config.name), config.lease_s, force=True)
        return True
    finally:
        store.release()
