"""The journal that a member of an enhanced cluster is to use: a new one if the last was taken over."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Final

from broker_app.config import Config
from broker_app.features.enhanced_cluster.registry import Registry, registry_name
from broker_app.journal.errors import JournalFailed
from broker_app.journal.store import LeaseState
from broker_app.storage.factory import make_store, store_at

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.5


class TakenOver(JournalFailed):
    """Another member has taken the journal over before this broker could use it: it is to begin with the next
    one."""


def is_taken_over(config: Config) -> bool:
    """Return whether another member has taken over the journal that these settings name. Blocks. Raises
    JournalError."""
    if config.cluster_id is None or config.journal is None:
        return False
    registry = Registry(store_at(config.journal, registry_name(config.cluster_id)))
    try:
        return registry.generation(config.name) > config.journal_generation
    finally:
        registry.close()


def with_generation(config: Config) -> Config:
    """The settings with the generation of the journal that this broker is to use. Blocks while another member
    takes over the present one. Raises JournalError."""
    if config.cluster_id is None or config.journal is None:
        return config
    registry = Registry(store_at(config.journal, registry_name(config.cluster_id)))
    try:
        return _settled(config, registry)
    finally:
        registry.close()


def _settled(config: Config, registry: Registry) -> Config:
    until = time.monotonic() + config.cluster_takeover_wait
    taker = ""
    while True:
        config = replace(config, journal_generation=registry.generation(config.name))
        lease = _lease(config)
        if lease is None or not _is_of_another(lease, config, registry):
            return config
        if time.monotonic() > until:
            raise JournalFailed(
                f"{lease.holder.name} has been taking over the journal of this broker for "
                f"{config.cluster_takeover_wait:g} s (cluster_takeover_wait); see its log, and start this "
                "broker again"
            )
        if lease.holder.name != taker:
            taker = lease.holder.name
            log.info("this broker is being taken over by %s: it waits until that is complete", taker)
        time.sleep(_LOOK_S)


def _lease(config: Config) -> LeaseState | None:
    store = make_store(config)
    try:
        return store.lease()
    finally:
        store.release()


def _is_of_another(lease: LeaseState, config: Config, registry: Registry) -> bool:
    """Return whether another member holds the journal of this one."""
    if lease.is_released or lease.left_s <= 0:
        return False
    members = {seen.note.member for seen in registry.journals()}
    return lease.holder.name in members - {config.name}
