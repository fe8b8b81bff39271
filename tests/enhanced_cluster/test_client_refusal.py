"""The refusal of new clients while a takeover runs, by a clock of the test."""

from __future__ import annotations

from broker_app.features.enhanced_cluster.client_refusal import REFUSES_S, ClientRefusal


class Clock:
    """A clock that the test sets, in seconds."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_each_takeover_refuses_clients_for_a_bounded_time_of_its_own_and_all_are_summed() -> None:
    clock = Clock()
    refusal = ClientRefusal(clock)
    assert (refusal.member, refusal.reason(), refusal.total_s) == ("", "", 0.0)

    refusal.begin("b1")
    clock.now += 3
    assert refusal.reason() == "takes over the messages of b1 now, for 10 s at most"
    assert refusal.total_s == 3.0
    refusal.end()
    clock.now += 60
    assert (refusal.member, refusal.reason(), refusal.total_s) == ("", "", 3.0)

    refusal.begin("b3")
    clock.now += REFUSES_S + 5
    assert (refusal.member, refusal.reason(), refusal.total_s) == ("b3", "", 3.0 + REFUSES_S)
    refusal.end()
    assert refusal.total_s == 3.0 + REFUSES_S
