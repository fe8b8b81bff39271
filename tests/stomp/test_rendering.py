"""MESSAGE frames: their headers come from cached parts, whatever was rendered before."""

from __future__ import annotations

import pytest

from broker_app.base.process.in_thread import LARGE_BYTES
from broker_app.core import commands as c
from broker_app.core.message import Envelope, Message
from broker_app.core.policy import DestinationPolicy
from broker_app.net.stomp.rendering import Renderer
from tests.core.stage import Stage

ENVELOPE = Envelope("/queue/q", b"colour:red\n")


def message(envelope: Envelope = ENVELOPE, *, attempts: int = 0, id: bytes = b"other-1") -> Message:
    made = Message(envelope, b"body", 5, 1_000, recorded=True)
    made.attempts, made.explicit_id = attempts, id
    return made


def headers(frame: bytes) -> dict[str, str]:
    head = frame.split(b"\n\n")[0].decode()
    return dict(line.split(":", 1) for line in head.splitlines()[1:])


def test_first_and_repeated_deliveries_of_one_envelope_do_not_share_their_headers() -> None:
    stage = Stage()
    subscription = stage.client().subscribe("/queue/q")
    renderer = Renderer("1.2", stage.broker.turn.ids)
    given = [message(), message(attempts=2), message(), message(id=b"")]
    found = [headers(frame) for frame in renderer.deliveries([(subscription, 1, one) for one in given])]
    assert [one["redelivered"] for one in found] == ["false", "true", "false", "false"]
    assert [one["attempt"] for one in found] == ["1", "3", "1", "1"]
    assert [one["message-id"] for one in found[:3]] == ["other-1"] * 3
    assert all(one["colour"] == "red" and one["ack"] == "1" and "seq" not in one for one in found)


def test_a_message_of_the_history_of_a_topic_has_the_position_to_continue_from() -> None:
    stage = Stage(policy=DestinationPolicy(retention_ms=60_000))
    stage.client().publish("/topic/t", b"1")
    reader = stage.client("reader")
    subscription = reader.subscribe("/topic/t", start="first")
    ((_, tag, first),) = reader.got
    first.explicit_id = b"other-1"
    renderer = Renderer("1.2", stage.broker.turn.ids)
    (frame,) = renderer.deliveries([(subscription, tag, first)])
    assert headers(frame)["seq"] == str(first.position)
    assert headers(frame)["attempt"] == "1"


@pytest.mark.parametrize(
    "given", [message(), message(attempts=2), message(id=b"")], ids=["own id", "again", "first"]
)
def test_a_large_body_is_a_part_of_its_own_which_is_not_copied(given: Message) -> None:
    stage = Stage()
    subscription = stage.client().subscribe("/queue/q")
    renderer = Renderer("1.2", stage.broker.turn.ids)
    (small,) = renderer.deliveries([(subscription, 1, given)])
    large = bytes(LARGE_BYTES + 1)
    given.body = large
    head, body, end = renderer.deliveries([(subscription, 1, given)])
    assert body is large and end == b"\0\n"
    assert (
        head
        == small.replace(b"content-length:4\n", b"content-length:%d\n" % len(large))[: -len(b"body" + end)]
    )


@pytest.mark.parametrize("ack", [c.AUTO, c.INDIVIDUAL])
def test_a_large_body_is_not_copied_for_a_browser(ack: str) -> None:
    stage = Stage()
    subscription = stage.client().subscribe("/queue/q")
    subscription.ack = ack
    given = message()
    renderer = Renderer("1.2", stage.broker.turn.ids)
    small = b"".join(renderer.browsed(subscription, given))
    given.body = large = bytes(LARGE_BYTES + 1)
    head, body, end = renderer.browsed(subscription, given)
    assert body is large and end == b"\0\n"
    lines = small.replace(b"content-length:4\n", b"content-length:%d\n" % len(large))
    assert head == lines[: -len(b"body" + end)]
