"""Transactions: deeds that wait for their COMMIT, and then happen all or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from broker_app.core import commands as c
from broker_app.core.errors import Refused
from broker_app.core.peer import Peer
from broker_app.core.receiving import Receiving
from broker_app.core.transaction import Transaction


class Transacting(Receiving):
    """Begin, enlist, commit, abort."""

    def _begin(self, command: c.Begin) -> None:
        peer = command.peer
        if command.transaction in peer.transactions:
            refusal = Refused("conflict", f"transaction {command.transaction!r} has already begun")
        elif len(peer.transactions) >= self.limits.transactions_per_peer:
            refusal = Refused(
                "too-many", f"a connection may hold {self.limits.transactions_per_peer} transactions"
            )
        else:
            peer.transactions[command.transaction] = Transaction()
            self._accept(peer, command.receipt)
            return
        self._refuse(peer, command.receipt, refusal)

    def _enlist(self, command: c.Enlist) -> None:
        peer, limits = command.peer, self.limits
        transaction = peer.transactions.get(command.transaction)
        if transaction is None:
            self._refuse(peer, command.receipt, _no_transaction(command.transaction))
            return
        transaction.bytes += _published_bytes(command.command)
        held = sum(open_.bytes for open_ in peer.transactions.values())
        if (
            len(transaction.commands) >= limits.commands_per_transaction
            or held > limits.bytes_per_transaction
        ):
            del peer.transactions[command.transaction]
            detail = (
                f"transaction {command.transaction!r} is larger than "
                f"{limits.commands_per_transaction} frames or {limits.bytes_per_transaction} bytes "
                "and was aborted"
            )
            self._refuse(peer, command.receipt, Refused("too-large", detail))
            return
        transaction.commands.append(command.command)

    def _commit(self, command: c.Commit) -> None:
        peer = command.peer
        transaction = peer.transactions.pop(command.transaction, None)
        if transaction is None:
            self._refuse(peer, command.receipt, _no_transaction(command.transaction))
            return
        try:
            if transaction.spoilt is not None:
                raise transaction.spoilt
            self._check_all(peer, transaction.commands)
        except Refused as refusal:
            detail = f"transaction {command.transaction!r} was rolled back: {refusal.detail}"
            self._refuse(peer, command.receipt, Refused(refusal.code, detail, **refusal.facts))
            return
        except Exception as error:
            self._refuse(peer, command.receipt, error)
            return
        failures = len(self._out.failures)
        for deed in transaction.commands:
            self._deeds[type(deed)](deed)
        for failure in self._out.failures[failures:]:
            raise failure.error  # the others are done, and a transaction happens whole or not at all
        self._accept(peer, command.receipt)

    def _check_all(self, peer: Peer, enlisted: Sequence[c.Command]) -> None:
        """Refused when any deed of a transaction cannot be carried out."""
        settled: set[int] = set()
        published = [entry for deed in enlisted if isinstance(deed, c.Publish) for entry in deed.entries]
        for deed in enlisted:
            if isinstance(deed, c.Publish):
                for envelope, _, _ in deed.entries:
                    self._check_sendable(envelope.address)
            elif isinstance(deed, c.Settle | c.Return):
                if settled.intersection(deed.tags):
                    raise Refused("unknown-delivery", "the transaction settles one delivery twice")
                settled.update(self._tags(peer, deed.tags, deed.cumulative))
        self._check_all_fit(peer, published)

    def _spoil(self, command: c.Spoil) -> None:
        transaction = command.peer.transactions.get(command.transaction)
        if transaction is not None:
            transaction.spoilt = command.refusal

    def _abort(self, command: c.Abort) -> None:
        if command.peer.transactions.pop(command.transaction, None) is None:
            self._refuse(command.peer, command.receipt, _no_transaction(command.transaction))
        else:
            self._accept(command.peer, command.receipt)


def _no_transaction(name: str) -> Refused:
    return Refused("not-found", f"there is no open transaction {name!r}; BEGIN it first")


def _published_bytes(deed: c.Command) -> int:
    return sum(len(body) for _, body, _ in deed.entries) if isinstance(deed, c.Publish) else 0
