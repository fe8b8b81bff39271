"""Transactions: deeds that wait for their COMMIT, and then happen all or not at all."""

from __future__ import annotations

from collections.abc import Sequence

from broker_app.core import commands as c
from broker_app.core.account import Account
from broker_app.core.errors import Refused
from broker_app.core.message import OVERHEAD_BYTES
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
        peer = command.peer
        transaction = peer.transactions.get(command.transaction)
        if transaction is None:
            self._refuse(peer, command.receipt, _no_transaction(command.transaction))
            return
        refusal = self._not_enlisted(peer, command.transaction, transaction, _weight(command.command))
        if refusal is not None:
            self._end_transaction(peer, command.transaction)
            self._refuse(peer, command.receipt, refusal)
            return
        transaction.commands.append(command.command)

    def _not_enlisted(self, peer: Peer, name: str, transaction: Transaction, size: int) -> Refused | None:
        """Why a transaction cannot take so much more, else None: then it is counted."""
        limits, account = self.limits, self._account_of(peer)
        if (
            len(transaction.commands) >= limits.commands_per_transaction
            or account.enlisted + size > limits.bytes_per_transaction
        ):
            return Refused(
                "too-large",
                f"transaction {name!r} is larger than {limits.commands_per_transaction} frames or "
                f"{limits.bytes_per_transaction} bytes, with headers and other open transactions of its "
                "connection, and was aborted",
            )
        most = limits.bytes_of_transactions
        if account.of_user.enlisted + size > most // 2 or self.enlisted_bytes + size > most:
            return Refused(
                "busy",
                f"transaction {name!r} was aborted: open transactions hold as much as they may, {most} "
                "bytes of all users or half of it of one; commit or abort some, and send it again",
            )
        self._count_enlisted(account, transaction, size)
        return None

    def _count_enlisted(self, account: Account, transaction: Transaction, size: int) -> None:
        transaction.bytes += size
        account.enlist(size)
        self.enlisted_bytes += size

    def _end_transaction(self, peer: Peer, name: str) -> Transaction | None:
        """Take a transaction out, if there is one."""
        transaction = peer.transactions.pop(name, None)
        if transaction is not None and transaction.bytes:
            self._count_enlisted(self._account_of(peer), transaction, -transaction.bytes)
        return transaction

    def _disconnect(self, command: c.Disconnect) -> None:
        for name in list(command.peer.transactions):
            self._end_transaction(command.peer, name)
        super()._disconnect(command)

    def _commit(self, command: c.Commit) -> None:
        peer = command.peer
        transaction = self._end_transaction(peer, command.transaction)
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
                    self._check_sendable(envelope.address, envelope.special)
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
        if self._end_transaction(command.peer, command.transaction) is None:
            self._refuse(command.peer, command.receipt, _no_transaction(command.transaction))
        else:
            self._accept(command.peer, command.receipt)


def _no_transaction(name: str) -> Refused:
    return Refused("not-found", f"there is no open transaction {name!r}; BEGIN it first")


def _weight(deed: c.Publish | c.Settle | c.Return) -> int:
    """About how many bytes of memory a deed takes until its transaction ends."""
    if isinstance(deed, c.Publish):
        return sum(len(body) + envelope.weight for envelope, body, _ in deed.entries)
    return OVERHEAD_BYTES + 8 * len(deed.tags)
