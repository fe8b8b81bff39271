"""Properties of GlassFish MQ that order what other settings do: without these a broker does not start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from broker_app.base.settings import cluster_addresses
from broker_app.config import Config, ConfigError
from broker_app.features.cluster.configuration.imq_names import HA, STORE


class Expectation(NamedTuple):
    """A property with its value, and the place where it was set."""

    source: str
    name: str
    value: str


def check(config: Config, expected: Iterable[Expectation]) -> None:
    """Raise ConfigError with all that the settings lack, or contradict."""
    wrong = [f"{one.source}: {fault}" for one in expected if (fault := _fault(config, one.name, one.value))]
    if wrong:
        raise ConfigError("\n".join(wrong))


def _fault(config: Config, name: str, value: str) -> str:
    """The error of a property; empty if there is none."""
    order, is_stored = (name, value.lower()), config.journal is not None
    if order == (HA, "true") and config.cluster_id is None:
        return cluster_addresses.lacking_of_member({one: getattr(config, one) for one in config.sources})
    if order == (HA, "false") and config.cluster_id is not None:
        return f"false contradicts cluster_id {config.cluster_id!r}: leave one of them out"
    if order == (STORE, "jdbc") and not is_stored:
        return (
            "the journal is to be in a store, which has no address here: set journal (--journal, "
            "MOM_JOURNAL) to postgresql://…, redis://… or file:/DIRECTORY"
        )
    if order == (STORE, "file") and is_stored:
        return (
            "the journal is to be in files of this broker, and journal (--journal, MOM_JOURNAL) has the "
            "address of a store: leave one of them out"
        )
    return ""
