from broker_app.base.events import BRIDGE_RETRYING, FLOW_SUSPENDED
from broker_app.features.bridge.timeline import Timeline, TimelineEvent


def test_a_repeated_event_is_counted_in_one_entry_that_is_the_newest() -> None:
    times, told = iter(range(1, 9)), list[TimelineEvent]()
    timeline = Timeline(lambda: next(times), told.append)
    timeline.note(BRIDGE_RETRYING, code="REFUSED")
    timeline.note(FLOW_SUSPENDED, "orders")
    timeline.note(BRIDGE_RETRYING, code="REFUSED")
    timeline.note(BRIDGE_RETRYING, code="LOGIN")
    assert [(event.time_ms, event.event.name, event.code, event.times) for event in timeline.events()] == [
        (2, "suspended", "", 1),
        (3, "retrying", "REFUSED", 2),
        (4, "retrying", "LOGIN", 1),
    ]
    assert [event.time_ms for event in told] == [1, 2, 4]
