"""The keeper of the change record (the master broker): which broker it is, and why changes are refused."""

from __future__ import annotations

from collections.abc import Container, Mapping
from enum import StrEnum
from typing import Final

from broker_app.base.refused import Refused
from broker_app.features.cluster.record.change_record import KEEPER, Change, ChangeRecord, Entry

MASTER_UNAVAILABLE: Final = "master-unavailable"
#: the only entry of its kind
_NAME: Final = "keeper"


class KeeperResult(StrEnum):
    """The results of changing the keeper; for all but OK it is unchanged."""

    OK = "OK"
    BAD_REQUEST = "BAD_REQUEST"
    NOT_ALLOWED = "NOT_ALLOWED"
    UNAVAILABLE = "UNAVAILABLE"
    PRECONDITION_FAILED = "PRECONDITION_FAILED"
    #: the new keeper has not answered: query which one it is
    UNKNOWN = "UNKNOWN"


_REASONS: Final[Mapping[KeeperResult, str]] = {
    KeeperResult.BAD_REQUEST: "this cluster has no keeper, or no broker is named; set cluster_keeper at all",
    KeeperResult.NOT_ALLOWED: "only the present keeper can be asked for it, and only with "
    "cluster_dynamic_keeper (imq.cluster.dynamicChangeMasterBrokerEnabled) set",
    KeeperResult.UNAVAILABLE: "the new keeper is not connected with this one; nothing was changed",
    KeeperResult.PRECONDITION_FAILED: "the new keeper does not have the whole change record yet; nothing was "
    "changed: repeat it in a moment",
    KeeperResult.UNKNOWN: "the new keeper has not answered in time; `mom cluster status` shows which broker "
    "is the keeper once the two are connected again",
}


def unchanged(result: KeeperResult) -> Refused:
    """The refusal with a result by which the keeper was not changed."""
    return Refused("conflict", f"{result.value}: {_REASONS[result]}", result=result.value)


class Keeper:
    """The broker that gives versions. The configuration has its `address`, empty for a cluster without one;
    the record has its name once an administrator has chosen another one (changemaster), which holds until the
    configuration names another address."""

    def __init__(
        self, own_name: str, record: ChangeRecord, address: str, *, is_here: bool, may_change: bool = False
    ) -> None:
        self._own_name = own_name
        self._record = record
        self.address = address
        #: whether an administrator may choose another one
        self.may_change = may_change
        #: the name of the broker at that address, empty until it is known
        self._at_address = own_name if is_here else ""
        #: whether that broker itself has this address: other brokers that claim to be the keeper are not it
        self._is_sure = is_here
        #: whether the keeper, or the first other broker where that is this one, has sent what it has
        self.was_compared = False

    @property
    def name(self) -> str:
        """The name of the keeper's broker, or its address until that is known; empty without a keeper."""
        if not self.address:
            return ""
        return str(self._chosen.get("broker")) if self._is_chosen else self._at_address or self.address

    @property
    def _chosen(self) -> dict[str, object]:
        return self._record.value(KEEPER, _NAME) or {}

    @property
    def _is_chosen(self) -> bool:
        """True if an administrator has chosen a keeper instead of the one of the configuration."""
        return self._chosen.get("instead_of") == self.address

    @property
    def is_here(self) -> bool:
        return self.name == self._own_name

    @property
    def is_elsewhere(self) -> bool:
        """True if another broker gives versions."""
        return bool(self.address) and not self.is_here

    def claimed_by(self, broker: str, address: str, connected: Container[str]) -> None:
        """Learn the name of the broker at the address of the configuration; it may have another one since. A
        claim from another `address` counts while no broker from that one was seen: it may be known by two."""
        if not self.address or self._at_address == self._own_name or self._is_chosen:
            return
        if address == self.address or not (self._is_sure or self._at_address in connected):
            self._at_address, self._is_sure = broker, address == self.address

    def may_give(self, broker: str) -> bool:
        """Return whether any entry of a broker may be taken."""
        is_new = self.may_change and not self.was_compared
        return broker == self.name or is_new or not self.is_elsewhere

    def doubt(self, broker: str, entry: Entry, *, is_compared: bool) -> str:
        """The reason why an entry is not taken from a broker; empty if it is. With a keeper, only that gives
        versions and names another one. It takes what others have until it `is_compared` with them, since it
        may have lost its file; and where another may be chosen, a broker that has just started believes who
        it is."""
        is_of_keeper = broker == self.name
        if entry.kind == KEEPER:
            is_right = is_of_keeper and (self.may_change or self._is_sure or self._is_chosen)
            is_news = bool(self.address) and self.may_change and not self.was_compared
            return "" if is_right or is_news else "only the present master broker names another one"
        if not is_of_keeper and (self.is_elsewhere or (self.is_here and is_compared)):
            return f"only the master broker {self.name} gives versions"
        return ""

    def change(self, broker: str) -> Change:
        """The change of the record that makes `broker` the keeper."""
        value: dict[str, object] = {"broker": broker, "instead_of": self.address}
        return Change(KEEPER, _NAME, value)

    def away(self) -> Refused:
        """The refusal of a change while the keeper is not connected."""
        place = "" if self.name == self.address else f" ({self.address})"
        return Refused(
            MASTER_UNAVAILABLE,
            f"MASTER_UNAVAILABLE: the master broker {self.name}{place}, which keeps the change record of the "
            "cluster, is not connected: declared destinations and durable subscriptions cannot be created, "
            "changed or deleted until it is. Messages, existing durable subscriptions, and temporary and "
            "automatically created destinations work as before",
            keeper=self.name,
        )

    def changing(self) -> Refused:
        """The refusal of a change while another broker becomes the keeper."""
        return Refused(
            MASTER_UNAVAILABLE,
            "MASTER_UNAVAILABLE: the master broker is being changed; nothing was changed: repeat it in a "
            "moment",
            keeper=self.name,
        )

    def moved(self) -> Refused:
        """The refusal of a change that was sent to a broker that is not the keeper any more."""
        return Refused(
            MASTER_UNAVAILABLE,
            f"MASTER_UNAVAILABLE: {self._own_name} is not the master broker, {self.name} is; nothing was "
            "changed: repeat it",
            keeper=self.name,
        )

    def lost(self) -> Refused:
        """The refusal of a change that the keeper has not answered."""
        return Refused(
            MASTER_UNAVAILABLE,
            f"MASTER_UNAVAILABLE: the master broker {self.name} has not answered. It may have made the "
            "change, which then arrives here when it is connected again: look before you repeat it",
            keeper=self.name,
        )
