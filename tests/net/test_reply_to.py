"""Reply addresses: the broker subscribes the requester whenever it is needed."""

from __future__ import annotations

import re

from tests.support.small_broker import small_broker


async def test_a_requester_that_unsubscribed_from_its_answers_is_subscribed_by_its_next_request() -> None:
    async with small_broker() as broker:
        asking, answering = await broker.client(), await broker.client()
        request = b"SEND\ndestination:/queue/q\nreply-to:/temp-queue/mine\nreceipt:1\n\n?\0"
        for _ in range(2):
            await asking.ask(request)
            assert (await asking.ask(b"UNSUBSCRIBE\nid:/temp-queue/mine\nreceipt:2\n\n\0")).startswith(
                b"RECEIPT"
            )
        await asking.ask(request)
        answering.send(b"SUBSCRIBE\nid:s\ndestination:/queue/q\n\n\0")
        found = re.search(rb"\nreply-to:(.+)\n", (await answering.frames(3))[-1])
        assert found is not None
        answering.send(b"SEND\ndestination:%b\n\nyes\0" % found[1].replace(b":", b"\\c"))
        assert (await asking.frame()).endswith(b"\n\nyes")
        await asking.close()
        await answering.close()
