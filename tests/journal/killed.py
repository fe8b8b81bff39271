"""A process that lives with a journal until it is killed; it prints each position once it is confirmed.

    python -m tests.journal.killed DIRECTORY

Lines: "t N": position N is about to be freed; "f N": it was freed; "p N": position N was published.
"""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path

from broker_app.core.outcome import Outcome
from broker_app.journal import codec
from broker_app.journal.log.segments import SegmentJournal


def body_of(position: int) -> bytes:
    """The record published at a position."""
    return codec.encode_record(codec.PUBLISHED, b"%d " % position * 40)


def encode_state(wanted: Iterable[int]) -> bytes:
    """A snapshot: the wanted positions."""
    return " ".join(map(str, wanted)).encode()


def replay(journal: SegmentJournal) -> set[int]:
    """The wanted positions, from the snapshot and the records after it: published, or freed by number."""
    recovery = journal.open()
    wanted = {int(word) for word in (recovery.snapshot or b"").split()}
    for batch in journal.replay():
        for position, (kind, record) in enumerate(codec.iterate_records(batch.records), batch.first_position):
            if kind == codec.PUBLISHED:
                wanted.add(position)
            else:
                wanted.discard(int(record[codec.RECORD_HEADER_BYTES :]))
    journal.set_live_positions([sorted(wanted)])
    return wanted


async def live(directory: Path) -> None:
    """Publish and free for ever; every 17th message is kept."""
    call_soon = asyncio.get_running_loop().call_soon_threadsafe
    journal = SegmentJournal(
        directory, segment_bytes=16384, inline_sync_bytes=1000, call_soon_threadsafe=call_soon
    )
    wanted = replay(journal)
    position = int(journal.statistics()["next_position"])
    turn = 0
    while True:
        turn += 1
        free = [each for each in wanted if each % 17][: turn % 9]
        batch = Outcome(position, turn)
        published = list(range(position, position + turn % 6 + 1))
        batch.published, batch.freed = published, free
        batch.parts = [body_of(each) for each in published]
        batch.parts += [codec.encode_record(2, b"%d" % each) for each in free]
        batch.count = len(batch.parts)
        print("".join(f"t {each}\n" for each in free), end="", flush=True)
        durable = asyncio.get_running_loop().create_future()
        journal.commit(batch, durable.set_result)
        assert await durable is None
        wanted.update(published)
        wanted.difference_update(free)
        position += batch.count
        if turn % 20 == 0:
            stored = asyncio.get_running_loop().create_future()
            journal.snapshot(position, [encode_state(wanted)], stored.set_result)
            assert await stored is None
        print("\n".join([*(f"p {each}" for each in published), *(f"f {each}" for each in free)]), flush=True)


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1])))
