import pytest

from mom_client.storeandforward import Forwarded, forwarded, parse, parse_bridge

LONGEST = Forwarded("ü" * 20, "✉" * 79)


def test_a_name_goes_up_to_the_first_queue() -> None:
    assert parse("storeAndForward:broker1/queue/queue1") == Forwarded("broker1", "queue1")
    assert parse("storeAndForward:b/queue/a/queue/c") == Forwarded("b", "a/queue/c")
    assert parse("orders") is None
    assert parse("storeandforward:b/queue/q") is None


@pytest.mark.parametrize("found", [LONGEST, Forwarded("b", "q"), Forwarded("b", "a/b:c")])
def test_a_name_made_of_two_elements_is_parsed_into_them(found: Forwarded) -> None:
    assert forwarded(*found) == found
    assert parse(found.name) == found
    assert parse_bridge(f"/bridge/{found.broker}/{found.queue}") == found
    assert found.address == f"/queue/{found.name}"


def test_limits_count_characters_without_the_white_space_around_them() -> None:
    assert forwarded(f" {LONGEST.broker} ", f"\t{LONGEST.queue}\n") == LONGEST
    for broker, queue, wrong in [
        (" ", "q", "broker name .* is empty; 1 to 20"),
        ("b", "", "queue name .* is empty; 1 to 79"),
        ("b" * 21, "q", "broker name .* 21 characters; at most 20"),
        ("b", "q" * 80, "queue name .* 80 characters; at most 79"),
        ("a/b", "q", "'a/b' .* contains '/'"),
        ("a:b", "q", "'a:b' .* contains ':'"),
        ("b", "q.dead", "dead letters"),
    ]:
        with pytest.raises(ValueError, match=wrong):
            forwarded(broker, queue)


def test_dead_letters_of_a_store_and_forward_queue_are_not_forwarded() -> None:
    assert parse("storeAndForward:b/queue/q.dead") is None
    with pytest.raises(ValueError, match="1 to 20"):
        parse("storeAndForward:/queue/q.dead")
