"""The SEND frames of bridges."""

from __future__ import annotations

from broker_app.core.message import Envelope, Message
from broker_app.features.bridge.framing import Framing, ToForeign, ToMom
from broker_app.features.bridge.inflight_window import FLIGHT_BYTES
from mom_client.stomp.writes import ALONE
from tests.core.stage import Stage

BODY = b"x" * FLIGHT_BYTES


def test_a_large_body_is_a_part_of_its_own_which_is_not_copied() -> None:
    stage = Stage()
    subscription = stage.client().subscribe("/queue/q")
    framings: list[Framing] = [
        ToMom("/queue/there", "1.2", "f1"),
        ToForeign("/queue/there", "1.2", stage.broker.turn.ids),
    ]
    for framing in framings:
        given = Message(Envelope("/queue/q", b"colour:red\n"), BODY[:ALONE], 5, 1_000, recorded=True)
        (small,) = framing.frames([(subscription, 1, given)])
        given.body = BODY
        head, body, end = framing.frames([(subscription, 1, given)])
        assert body is BODY and end == b"\0"
        lines = small[: -ALONE - 1].replace(
            b"content-length:%d\n" % ALONE, b"content-length:%d\n" % len(BODY)
        )
        assert head == lines
