from broker_app.core.timers import Alarms, Leases
from tests.core.stage import Stage

call_at = Stage().broker.turn.call_at


def test_leases_are_due_in_the_order_of_their_ends() -> None:
    leases, peer = Leases(call_at), Stage().client().peer
    for tag, until_ms in ((1, 30), (2, 10), (3, 20)):
        leases.begin(peer, tag, until_ms)
    assert leases.alarms.next_ms == 10
    assert list(leases.due(25)) == [(peer, 2), (peer, 3)]
    assert leases.alarms.next_ms == 30
    assert list(leases.due(29)) == []
    assert list(leases.due(30)) == [(peer, 1)]
    assert leases.alarms.next_ms == 0


def test_a_later_lease_replaces_the_earlier_one() -> None:
    leases, peer = Leases(call_at), Stage().client().peer
    leases.begin(peer, 1, 10)
    leases.begin(peer, 1, 50)
    assert leases.until_ms(peer, 1) == 50
    assert list(leases.due(49)) == []
    assert list(leases.due(50)) == [(peer, 1)]
    assert leases.until_ms(peer, 1) == 0


def test_a_lease_may_also_be_shortened() -> None:
    leases, peer = Leases(call_at), Stage().client().peer
    leases.begin(peer, 1, 50)
    leases.begin(peer, 1, 10)
    assert list(leases.due(60)) == [(peer, 1)]


def test_deliveries_of_different_peers_have_different_leases() -> None:
    leases, stage = Leases(call_at), Stage()
    one, other = stage.client().peer, stage.client().peer
    leases.begin(one, 1, 10)
    leases.begin(other, 1, 20)
    assert list(leases.due(15)) == [(one, 1)]
    assert leases.until_ms(other, 1) == 20


def test_alarms_that_ended_early_take_no_room_until_their_time() -> None:
    alarms: Alarms[int] = Alarms(call_at)
    for key in range(10 * Alarms.MAX_ENDED):
        alarms.set(key, 43_200_000)
        alarms.clear(key)
    alarms.set(1, 43_200_001)
    assert len(alarms._heap) <= Alarms.MAX_ENDED + 3
    assert list(alarms.due(43_200_001)) == [1]


def test_only_an_alarm_before_all_others_asks_for_an_earlier_call() -> None:
    asked: list[int] = []
    alarms: Alarms[int] = Alarms(asked.append)
    for key, at_ms in enumerate((30, 50, 10, 20)):
        alarms.set(key, at_ms)
    assert asked == [30, 10]
