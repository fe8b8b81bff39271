"""The output of the engine: what was decided and committed leaves to clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from broker_app.base.internal_errors import internal_errors
from broker_app.base.refused import internal
from broker_app.core.commands import Command, Disconnect
from broker_app.core.model import Delivery, Fanout, Peer, Subscription
from broker_app.core.outcome import Outcome
from broker_app.engine.interceptors import DeliveryInterceptor

#: clients that are sent to between two looks at the clock, and those that are sent the same few bytes
_CLIENTS, _OF_FEW_BYTES = 4, 16
_FEW_BYTES = 16 * 1024
#: refusals that one client is sent between them
_REFUSALS = 50


class Output:
    """Hands outcomes to the receivers of peers. An error at one client costs no other client anything.

    `submit` takes the command that disconnects a client which could not be closed.
    """

    def __init__(self, submit: Callable[[Command], None]) -> None:
        self._submit = submit
        self.interceptors: tuple[DeliveryInterceptor, ...] = ()

    def send(self, outcome: Outcome) -> Iterator[None] | None:
        """Send receipts, deliveries and refusals; close and throttle clients; log faults of commands. What is
        sent to many clients, and many refusals, are sent in steps, which are returned: between two of them
        others may be served, but nothing may be decided before the last one."""
        if outcome.fanouts or len(outcome.touched) > _CLIENTS or outcome.refusals > _REFUSALS:
            return self._in_steps(outcome)
        self._flush(outcome.touched)
        if outcome.ended or outcome.closes or outcome.throttles or outcome.failures:
            self._conclude(outcome)
        return None

    def _in_steps(self, outcome: Outcome) -> Iterator[None]:
        for at in range(0, len(outcome.touched), _CLIENTS):
            some = outcome.touched[at : at + _CLIENTS]
            if outcome.refusals > _REFUSALS:
                for peer in some:
                    yield from self._refuse_in_steps(peer)
            self._flush(some)
            yield
        for fanout in outcome.fanouts:
            yield from self._fan_out(fanout)
        self._conclude(outcome)

    def _refuse_in_steps(self, peer: Peer) -> Iterator[None]:
        """Send the refusals of a client before all else that it gets, the last few excepted."""
        while len(peer.refusals) > _REFUSALS:
            later = peer.receipts, peer.deliveries, peer.refusals[_REFUSALS:]
            peer.receipts, peer.deliveries, peer.refusals = [], [], peer.refusals[:_REFUSALS]
            try:
                peer.receiver.flush(peer)
            except Exception as error:
                self._disconnect(peer, error)
                return
            peer.receipts, peer.deliveries, peer.refusals = later
            yield

    def _flush(self, peers: Sequence[Peer]) -> None:
        for peer in peers:
            peer.touched = False
            try:
                if self.interceptors and peer.deliveries:
                    peer.deliveries = self._let_pass(self.interceptors, peer, peer.deliveries)
                peer.receiver.flush(peer)
            except Exception as error:
                self._disconnect(peer, error)

    def _conclude(self, outcome: Outcome) -> None:
        """Report ended subscriptions, close and throttle clients, and log faults of commands."""
        for subscription, refusal in outcome.ended:
            try:
                subscription.peer.receiver.subscription_ended(subscription, refusal)
            except Exception as error:
                self._disconnect(subscription.peer, error)
        for peer, refusal in outcome.closes:
            try:
                peer.receiver.close(refusal)
            except Exception as error:
                self._disconnect(peer, error)
        for peer, on in outcome.throttles:
            try:
                peer.receiver.throttle(on)
            except Exception as error:
                self._disconnect(peer, error)
        if outcome.failures:
            for failure in outcome.failures:
                internal_errors.note("a command", failure.error, _name_of(failure.peer))

    def deliver(self, interceptor: DeliveryInterceptor, peer: Peer, deliveries: list[Delivery]) -> None:
        """Send deliveries that `interceptor` has held, without those that were returned meanwhile. It may
        have put other messages in the place of those that were delivered."""
        still = [delivery for delivery in deliveries if _is_open(peer, delivery)]
        behind = self.interceptors[self.interceptors.index(interceptor) + 1 :]
        # What was decided meanwhile leaves after its commit.
        later = peer.receipts, peer.refusals, peer.deliveries
        try:
            passed = self._let_pass(behind, peer, still)
            if passed:
                peer.receipts, peer.refusals, peer.deliveries = [], [], passed
                peer.receiver.flush(peer)
                peer.receipts, peer.refusals, peer.deliveries = later
        except Exception as error:
            self._disconnect(peer, error)

    @staticmethod
    def _let_pass(
        interceptors: tuple[DeliveryInterceptor, ...], peer: Peer, deliveries: list[Delivery]
    ) -> list[Delivery]:
        """Those of the deliveries that no interceptor holds."""
        for interceptor in interceptors:
            held = [delivery for delivery in deliveries if interceptor.concerns(delivery[0].address)]
            if held:
                deliveries = [one for one in deliveries if not interceptor.concerns(one[0].address)]
                interceptor.take(peer, held)
        return deliveries

    def _fan_out(self, fanout: Fanout) -> Iterator[None]:
        sample = fanout.members[0]
        if any(interceptor.concerns(sample.address) for interceptor in self.interceptors):
            for subscription in fanout.members:
                deliveries = [(subscription, 0, message) for message in fanout.messages]
                self._let_pass(self.interceptors, subscription.peer, deliveries)
            return
        try:
            parts = sample.peer.receiver.render(sample, fanout.messages)
        except Exception as error:  # all of them would miss these messages
            for subscription in fanout.members:
                self._disconnect(subscription.peer, error)
            return
        members = fanout.members
        if len(parts) > 1:  # large bodies are among them
            for subscription in members:
                yield
                self._send_parts(parts, subscription)
            return
        part = parts[0]
        many = _OF_FEW_BYTES if len(part) <= _FEW_BYTES else _CLIENTS
        for at in range(0, len(members), many):
            yield
            for subscription in members[at : at + many]:
                try:
                    subscription.peer.receiver.send(part)
                except Exception as error:
                    self._disconnect(subscription.peer, error)

    def _send_parts(self, parts: list[bytes], subscription: Subscription) -> None:
        try:
            for part in parts:
                subscription.peer.receiver.send(part)
        except Exception as error:
            self._disconnect(subscription.peer, error)

    def _disconnect(self, peer: Peer, error: Exception) -> None:
        """A client could not be sent its data: close it, so that it connects again and gets the rest."""
        internal_errors.note("sending to a client", error, _name_of(peer))
        peer.receipts, peer.refusals, peer.deliveries = [], [], []
        if not peer.connection:
            return  # a part of the node; what it serves asks again
        try:
            peer.receiver.close(internal())
        except Exception as failure:
            internal_errors.note("closing a client", failure, _name_of(peer))
            self._submit(Disconnect(peer))


def _name_of(peer: Peer) -> str:
    """A peer, for the log."""
    return f"user {peer.user}, connection {peer.connection}" if peer.connection else peer.user


def _is_open(peer: Peer, delivery: Delivery) -> bool:
    """Return whether a delivery still belongs to its peer; one without a tag, whether its subscription
    does."""
    subscription, tag, _ = delivery
    return tag in peer.unsettled if tag else not subscription.ended
