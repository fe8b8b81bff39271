"""stompman: python with_stompman.py HOST PORT USER PASSWORD QUEUE"""

import asyncio
import sys

import stompman

from tests.support.patience import patient

host, port, user, password, name = sys.argv[1:]
QUEUE = f"/queue/{name}"


async def main() -> None:
    server = stompman.ConnectionParameters(host=host, port=int(port), login=user, passcode=password)
    heart_beat = stompman.Heartbeat(will_send_interval_ms=1000, want_to_receive_interval_ms=1000)
    came: asyncio.Queue[stompman.AckableMessageFrame] = asyncio.Queue()
    async with asyncio.timeout(patient(30)), stompman.Client([server], heartbeat=heart_beat) as client:
        for number in range(6):
            await client.send(f"m{number}".encode(), QUEUE)
        auto = await client.subscribe_with_manual_ack(QUEUE, came.put, ack="auto")
        assert [(await came.get()).body for _ in range(6)] == [f"m{number}".encode() for number in range(6)]
        await auto.unsubscribe()

        manual = await client.subscribe_with_manual_ack(QUEUE, came.put, ack="client-individual")
        await client.send(b"again", QUEUE)
        await (await came.get()).nack()
        again = await came.get()
        assert again.headers["redelivered"] == "true"  # type: ignore[typeddict-item]
        await again.ack()

        try:
            async with client.begin() as transaction:
                await transaction.send(b"aborted", QUEUE)
                raise KeyError("abort")
        except KeyError:
            pass
        async with client.begin() as transaction:
            await transaction.send(b"committed", QUEUE)
        last = await came.get()
        assert last.body == b"committed"
        await last.ack()
        await manual.unsubscribe()


asyncio.run(main())
