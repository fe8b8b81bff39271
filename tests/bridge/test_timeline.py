from broker_app.features.bridge.timeline import Event, Timeline


def test_a_repeated_event_is_counted_in_one_entry_that_is_the_newest() -> None:
    times, told = iter(range(1, 9)), list[Event]()
    timeline = Timeline(lambda: next(times), told.append)
    timeline.note("retrying", code="REFUSED")
    timeline.note("suspended", "orders")
    timeline.note("retrying", code="REFUSED")
    timeline.note("retrying", code="LOGIN")
    assert [(event.time_ms, event.event, event.code, event.times) for event in timeline.events()] == [
        (2, "suspended", "", 1),
        (3, "retrying", "REFUSED", 2),
        (4, "retrying", "LOGIN", 1),
    ]
    assert [event.time_ms for event in told] == [1, 2, 4]
