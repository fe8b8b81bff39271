"""Transactions: commands that wait for their COMMIT and are carried out all or not at all."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.account import Account
from broker_app.core.accounts import Accounts
from broker_app.core.delivery.deliveries import Deliveries
from broker_app.core.destinations import Destinations
from broker_app.core.message import OVERHEAD_BYTES
from broker_app.core.model import Peer
from broker_app.core.publishing.admission import Admission
from broker_app.core.remote.origin import Origin
from broker_app.core.remote.remote_receipts import RemoteReceipts
from broker_app.core.transaction import Transaction
from broker_app.core.turn import Turn

_NOTHING = c.Need(0, 0, 0)


class Transactions:
    """Begin, enlist, commit, abort. `execute` carries out one command of a transaction, in steps."""

    def __init__(
        self,
        turn: Turn,
        accounts: Accounts,
        destinations: Destinations,
        deliveries: Deliveries,
        admission: Admission,
        remote_receipts: RemoteReceipts,
        execute: Callable[[c.Command], Iterator[None]],
    ) -> None:
        self._turn = turn
        self._accounts = accounts
        self._destinations = destinations
        self._deliveries = deliveries
        self._admission = admission
        self._remote_receipts = remote_receipts
        self._execute = execute
        #: bytes that open transactions hold
        self.enlisted_bytes = 0

    def check_begin(self, command: c.Begin) -> None:
        """Refused when a connection cannot begin a transaction with this name."""
        transactions, most = command.peer.transactions, self._turn.limits.transactions_per_peer
        if command.transaction in transactions:
            raise Refused("conflict", f"transaction {command.transaction!r} has already begun")
        if len(transactions) >= most:
            raise Refused("too-many", f"a connection may have {most} open transactions; commit or abort some")

    def begin(self, command: c.Begin) -> None:
        """Begin a transaction."""
        command.peer.transactions[command.transaction] = Transaction()
        self._turn.accept(command.peer, command.receipt)

    def enlist(self, command: c.Enlist) -> None:
        """Keep a command until its transaction is committed. When there is no room for it, abort the
        transaction."""
        peer = command.peer
        transaction = peer.transactions.get(command.transaction)
        if transaction is None:
            self._turn.refuse(peer, command.receipt, _no_transaction(command.transaction))
            return
        refusal = self._not_enlisted(peer, command.transaction, transaction, _size_bytes(command.command))
        if refusal is not None:
            self._end(peer, command.transaction)
            self._turn.refuse(peer, command.receipt, refusal)
            return
        transaction.commands.append(command.command)
        if command.confirm:
            self._turn.accept(peer, command.receipt)
        if isinstance(command.command, c.Publish):
            transaction.targets.update(envelope.address for envelope, _, _ in command.command.entries)

    def _not_enlisted(self, peer: Peer, name: str, transaction: Transaction, size: int) -> Refused | None:
        """The reason why a transaction cannot grow by so much, or None: the size is then counted."""
        limits, account = self._turn.limits, self._accounts.of(peer)
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
                f"transaction {name!r} was aborted: open transactions have reached their limit, {most} bytes "
                "for all users or half of it for one; commit or abort some, and send it again",
            )
        self._count_enlisted(account, transaction, size)
        return None

    def _count_enlisted(self, account: Account, transaction: Transaction, size: int) -> None:
        transaction.bytes += size
        account.enlist(size)
        self.enlisted_bytes += size

    def _end(self, peer: Peer, name: str) -> Transaction | None:
        """Remove and return a transaction, if there is one."""
        transaction = peer.transactions.pop(name, None)
        if transaction is not None and transaction.bytes:
            self._count_enlisted(self._accounts.of(peer), transaction, -transaction.bytes)
        return transaction

    def end_all(self, peer: Peer) -> None:
        """Roll back all open transactions of a connection."""
        for name in list(peer.transactions):
            self._end(peer, name)

    def commit(self, command: c.Commit) -> c.Steps | None:
        """Carry out all commands of a transaction, or none; it ends in any case."""
        return self._turn.in_parts(c.Steps(command.peer, self._commit(command)))

    def _commit(self, command: c.Commit) -> Iterator[None]:
        """Check all commands, then carry them out."""
        turn, peer = self._turn, command.peer
        try:
            transaction = self._end(peer, command.transaction)
            if transaction is None:
                raise _no_transaction(command.transaction)
            origins = yield from self._check(peer, command.transaction, transaction)
        except Exception as error:
            turn.refuse(peer, command.receipt, error)
            return
        failures = len(turn.out.failures)
        for enlisted in transaction.commands:
            yield from self._execute(enlisted)
        for failure in turn.out.failures[failures:]:
            raise failure.error  # the others are done, and a transaction is atomic
        self._remote_receipts.accept(peer, command.receipt, origins)

    def _check(
        self, peer: Peer, name: str, transaction: Transaction
    ) -> Generator[None, None, frozenset[Origin]]:
        """Refused unless a transaction can be committed; the other brokers that own messages it settles."""
        try:
            if transaction.rollback_only is not None:
                raise transaction.rollback_only
            return (yield from self._check_all(peer, transaction.commands))
        except Refused as refusal:
            detail = f"transaction {name!r} was rolled back: {refusal.detail}"
            raise Refused(refusal.code, detail, **refusal.facts) from refusal

    def _check_all(
        self, peer: Peer, enlisted: Sequence[c.Command]
    ) -> Generator[None, None, frozenset[Origin]]:
        """Refused when any command of a transaction cannot be carried out; the brokers that own the messages
        it settles."""
        settled: set[int] = set()
        needs: dict[str, c.Need] = {}
        for command in enlisted:
            if isinstance(command, c.Publish):
                for envelope, body, _ in command.entries:
                    self._destinations.check_sendable(envelope.address, envelope.options)
                    size = len(body)
                    needs[envelope.address] = needs.get(envelope.address, _NOTHING).plus(
                        c.Need(1, size, size)
                    )
            elif isinstance(command, c.Settle | c.Return):
                if settled.intersection(command.tags):
                    raise Refused("unknown-delivery", "the transaction settles one delivery twice")
                settled.update(self._deliveries.check_tags(command))
            yield
        yield from self._admission.check_room(peer, needs)
        return self._deliveries.origins_of(peer, settled)

    def mark_rollback_only(self, command: c.MarkRollbackOnly) -> None:
        """Have the commit of a transaction refused."""
        transaction = command.peer.transactions.get(command.transaction)
        if transaction is not None:
            transaction.rollback_only = command.refusal

    def check_abort(self, command: c.Abort) -> None:
        """Refused when there is no transaction with this name."""
        if command.transaction not in command.peer.transactions:
            raise _no_transaction(command.transaction)

    def abort(self, command: c.Abort) -> None:
        """Roll a transaction back."""
        self._end(command.peer, command.transaction)
        self._turn.accept(command.peer, command.receipt)


def _no_transaction(name: str) -> Refused:
    return Refused("not-found", f"there is no open transaction {name!r}; BEGIN it first")


def _size_bytes(command: c.Publish | c.Settle | c.Return) -> int:
    """The estimated memory of a command until its transaction ends."""
    if isinstance(command, c.Publish):
        return sum(len(body) + envelope.overhead_bytes for envelope, body, _ in command.entries)
    return OVERHEAD_BYTES + 8 * len(command.tags)
