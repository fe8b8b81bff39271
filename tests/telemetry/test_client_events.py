"""Events of clients are kept for a day after they disconnect, within limits."""

from __future__ import annotations

import pytest

from broker_app.telemetry import client_events
from broker_app.telemetry.client_events import KEPT_S, LEFT, MAX_EACH, MAX_GONE, ClientEvents, ClientIdentity
from tests.support.clock import Clock

BOB = ClientIdentity("bob", "", "10.0.0.7")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def told(kept: ClientEvents, id: str) -> list[tuple[str, str, int]]:
    visit = kept.find(id)
    assert visit is not None
    return [(happened.event, happened.detail, happened.times) for happened in visit.events]


def test_events_are_kept_for_a_day_after_the_client_disconnected(clock: Clock) -> None:
    kept = ClientEvents(clock)
    kept.begin("1", BOB)
    kept.note("1", client_events.SUBSCRIBED, detail="/queue/a")
    kept.end("1", {"user": "bob"}, "the client left")
    clock.now += KEPT_S - 1
    assert told(kept, "1") == [
        (client_events.CONNECTED, "", 1),
        (client_events.SUBSCRIBED, "/queue/a", 1),
        (client_events.CLOSED, "the client left", 1),
    ]
    assert [visit.id for visit in kept.gone()] == ["1"]
    clock.now += 2
    assert kept.find("1") is None
    assert list(kept.gone()) == []


def test_a_repeated_event_is_one_line(clock: Clock) -> None:
    kept = ClientEvents(clock)
    kept.begin("1", BOB)
    for _ in range(3):
        kept.note("1", client_events.REFUSED, code="not-allowed", detail="no", by="rule 7")
    assert told(kept, "1")[1:] == [(client_events.REFUSED, "no", 3)]


def test_a_client_to_which_much_happens_keeps_its_beginning_and_the_newest(clock: Clock) -> None:
    kept = ClientEvents(clock)
    kept.begin("1", BOB)
    for number in range(MAX_EACH + 5):
        kept.note("1", client_events.SUBSCRIBED, detail=str(number))
    events = told(kept, "1")
    assert (len(events), events[0][0], events[-1][1]) == (
        MAX_EACH,
        client_events.CONNECTED,
        str(MAX_EACH + 4),
    )


def test_clients_that_disconnected_first_are_forgotten_first(clock: Clock) -> None:
    kept = ClientEvents(clock)
    for number in range(MAX_GONE + 1):
        kept.begin(str(number), BOB)
        kept.end(str(number), {}, "the client left")
    assert kept.find("0") is None
    assert kept.find("1") is not None


def test_a_client_that_logs_in_five_times_within_five_minutes_is_flapping(clock: Clock) -> None:
    kept = ClientEvents(clock)
    for number in range(5):
        kept.begin(str(number), BOB)
        kept.end(str(number), {}, f"for the {number}. time")
        clock.now += 20
    kept.begin("once", ClientIdentity("alice", "", "10.0.0.8"))
    ((caller, times, _, reason),) = kept.flapping()
    assert (caller, times, reason) == (BOB, 5, "for the 4. time")
    clock.now += 250
    assert kept.flapping() == []


def test_a_client_that_sends_disconnect_is_never_flapping(clock: Clock) -> None:
    """A command line connects for each message, and there is nothing wrong with it."""
    kept = ClientEvents(clock)
    for number in range(20):
        kept.begin(str(number), BOB)
        kept.end(str(number), {}, LEFT)
    assert kept.flapping() == []
    for number in range(5):
        kept.begin(f"lost {number}", BOB)
        kept.end(f"lost {number}", {}, "the connection was lost")
    assert kept.flapping()[0][1] == 5


def test_pages_in_a_browser_never_flap(clock: Clock) -> None:
    kept = ClientEvents(clock)
    for number in range(20):
        kept.begin(str(number), BOB, browser=True)
        kept.end(str(number), {}, "the connection was lost")
    assert kept.flapping() == []


def test_pages_in_a_browser_are_not_kept_among_the_clients_that_are_gone(clock: Clock) -> None:
    kept = ClientEvents(clock)
    for id, browser in (("program", False), ("page", True)):
        kept.begin(id, BOB, browser=browser)
        kept.note(id, client_events.SUBSCRIBED, detail="/queue/a")
        assert len(told(kept, id)) == 2
        kept.end(id, {}, LEFT)
    assert [visit.id for visit in kept.gone()] == ["program"]
    assert kept.find("page") is None


def test_rates_are_those_since_the_last_read(clock: Clock) -> None:
    kept = ClientEvents(clock)
    kept.begin("1", BOB)
    clock.now += 10
    assert kept.rates("1", 100, 20) == (10.0, 2.0), "at first, since it came"
    assert kept.rates("1", 500, 20) == (10.0, 2.0), "two who look at once see the same"
    clock.now += 2
    assert kept.rates("1", 110, 20) == (5.0, 0.0)
