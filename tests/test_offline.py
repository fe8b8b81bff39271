"""Repairing and shrinking the journal of a broker that is stopped."""

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from broker_app.core import commands as c
from broker_app.core.broker import Broker
from broker_app.core.durability.record_reader import Reader
from broker_app.core.durability.recovery import live_positions
from broker_app.core.header_block import headers
from broker_app.core.message import Envelope
from broker_app.core.policy import DestinationPolicy, Policies
from broker_app.engine import Engine
from broker_app.journal import codec
from broker_app.journal.errors import JournalDamaged, JournalInUse
from broker_app.journal.log.segments import SegmentJournal
from broker_app.storage import offline
from broker_app.storage.recovery import rebuild
from tests.support.listener import Listener

SEGMENT = 64 * 1024
BODY = b"x" * 500


class Node:
    """An engine over the journal in `directory`, with one client."""

    def __init__(self, directory: Path) -> None:
        self.journal = SegmentJournal(directory, segment_bytes=SEGMENT)
        self.engine = Engine(Broker(), self.journal)
        self.report = self.engine.recover()
        self.client = Listener()

    async def publish(self, address: str, *bodies: bytes) -> None:
        for body in bodies:
            self.engine.submit(c.Publish(self.client.peer, [(Envelope(address), body, None)]))
            await self.engine.wait_idle()

    async def take(self, address: str, count: int) -> list[bytes]:
        """Consume and acknowledge."""
        self.engine.submit(c.Subscribe(self.client.peer, address, address, c.INDIVIDUAL, credit=1000))
        await self.engine.wait_idle()
        taken, self.client.bodies = self.client.bodies[:count], []
        tags, self.client.tags = self.client.tags[:count], []
        self.engine.submit(c.Settle(self.client.peer, tags))
        self.engine.submit(c.Unsubscribe(self.client.peer, address))
        await self.engine.wait_idle()
        return taken

    def kill(self) -> None:
        self.journal.close()

    async def stop(self) -> None:
        await self.engine.stop()
        self.journal.close()


def damage(directory: Path, body: bytes) -> None:
    """Flip a bit of the batch that holds `body`."""
    for path in sorted(directory.glob("*.seg")):
        content = bytearray(path.read_bytes())
        if body in content:
            content[content.index(body)] ^= 1
            path.write_bytes(content)
            return
    raise AssertionError("it is nowhere")


def files(directory: Path, pattern: str) -> list[Path]:
    return sorted(directory.glob(pattern))


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files(directory, "*") if path.name != "lock"}


@pytest.mark.parametrize("snapshot", [False, True])
async def test_a_damaged_batch_is_skipped_on_request_and_the_loss_is_reported(
    tmp_path: Path, snapshot: bool
) -> None:
    node = Node(tmp_path)
    await node.publish("/queue/a", b"first", b"second", b"third")
    await node.publish("/queue/b", b"other")
    await (node.stop() if snapshot else asyncio.sleep(0))
    node.kill()
    damage(tmp_path, b"second")
    before = contents(tmp_path)

    looked = offline.repair(tmp_path, skip_damaged=True, dry_run=True)
    refused = offline.repair(tmp_path, skip_damaged=False, dry_run=False)
    assert looked.damages == refused.damages
    assert [found.positions for found in looked.damages] == [(2, 3)]
    assert not looked.kept and not refused.kept
    assert contents(tmp_path) == before

    done = offline.repair(tmp_path, skip_damaged=True, dry_run=False)
    assert [str(path) for path in files(tmp_path, "damaged-*")] == [done.kept]
    assert done.waiting == 3
    # Without a snapshot no record shows that there was a message; with one, which queue it waited in.
    assert done.lost == ({"/queue/a": 1} if snapshot else {})
    assert done.damages[0].destinations == ("/queue/a",)
    node = Node(tmp_path)
    assert node.report == []
    assert await node.take("/queue/a", 9) == [b"first", b"third"]
    assert await node.take("/queue/b", 9) == [b"other"]
    await node.stop()


@pytest.mark.parametrize("place", ["log", "carry"])
async def test_a_damaged_message_becomes_a_dead_letter_and_the_node_serves_on(
    tmp_path: Path, place: str
) -> None:
    node = Node(tmp_path)
    await node.publish("/queue/b", b"whole before")
    await node.publish("/queue/a", b"the damaged one")
    await node.publish("/queue/b", b"whole behind")
    await node.publish("/queue/rest", *[BODY] * 150)  # so that it is not in the segment being written
    if place == "carry":
        await node.take("/queue/rest", 150)
        for _ in range(4):
            await node.publish("/queue/rest", *[BODY] * 150)
            await node.take("/queue/rest", 150)
            node.engine.snapshot()
            await node.engine.wait_idle()
        assert node.journal.statistics()["carry_files"]
    await node.stop()
    damage(tmp_path, b"the damaged one")

    node = Node(tmp_path)
    assert node.report == []
    assert await node.take("/queue/a", 9) == []
    assert await node.take("/queue/b", 9) == [b"whole before", b"whole behind"]
    (dead,) = (
        message
        for lane in node.engine.broker.destinations.queues["/queue/a.dead"].lanes
        for message in lane.ready
    )
    facts = headers(dead.envelope.block)
    assert (facts["dead-reason"], facts["origin"]) == ("DAMAGED", "/queue/a")
    assert f"{place}-0000" in facts["dead-detail"]
    assert node.engine.ended is None
    await node.stop()

    node = Node(tmp_path)
    assert [name for name in node.engine.broker.destinations.queues if name.endswith(".dead")] == [
        "/queue/a.dead"
    ]
    assert node.engine.broker.destinations.queues["/queue/a.dead"].depth == 1
    assert (
        b"is damaged"
        in node.engine.records([*node.engine.broker.destinations.queues["/queue/a.dead"].lanes[0].paged])[0]
    )
    await node.stop()


async def test_browsing_shows_that_a_message_is_damaged(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.publish("/queue/a", b"the damaged one")
    await node.publish("/queue/rest", *[BODY] * 150)  # so that it is not in the segment being written
    await node.stop()
    damage(tmp_path, b"the damaged one")
    node = Node(tmp_path)
    (position,) = node.engine.broker.destinations.queues["/queue/a"].lanes[0].paged
    message = Reader("/queue/a").message(node.engine.records([position])[0], position)
    assert "is damaged" in headers(message.envelope.block)["damaged"]
    assert node.engine.broker.destinations.queues["/queue/a"].depth == 1, "looking changes nothing"
    await node.stop()


async def test_a_good_journal_is_left_alone(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.publish("/queue/a", b"first")
    await node.stop()
    done = offline.repair(tmp_path, skip_damaged=True, dry_run=False)
    assert (done.damages, done.kept, done.waiting) == ([], "", 1)
    assert not files(tmp_path, "damaged-*")


async def test_a_journal_in_use_is_left_alone(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with pytest.raises(JournalInUse, match="in use by process"):
        offline.repair(tmp_path, skip_damaged=True, dry_run=False)
    with pytest.raises(JournalInUse, match="in use by process"):
        offline.compact(tmp_path, print)
    await node.stop()


async def test_the_message_of_a_damaged_journal_names_file_place_and_command(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.publish("/queue/a", b"first", b"second", b"third")
    node.kill()
    damage(tmp_path, b"second")
    with pytest.raises(JournalDamaged) as raised:
        Node(tmp_path)
    (log,) = files(tmp_path, "log-*.seg")
    said = str(raised.value)
    assert str(log) in said
    assert "offset" in said and "positions 2 to 2" in said
    assert f"mom journal repair {tmp_path}" in said


async def test_compacting_leaves_what_waits_and_little_else(tmp_path: Path) -> None:
    node = Node(tmp_path)
    for number in range(10):
        await node.publish("/queue/kept", b"kept %d" % number)
        await node.publish("/queue/a", *[BODY] * 60)
    assert len(await node.take("/queue/a", 600)) == 600
    node.kill()

    said: list[str] = []
    done = offline.compact(tmp_path, said.append)
    assert done.waiting == 10
    assert done.after < done.before
    used = sum(path.stat().st_size for path in files(tmp_path, "carry-*.seg"))
    assert 0 < used < 4096
    assert not files(tmp_path, "log-*.seg")
    assert done.after < 64 * 1024
    assert any("10 messages wait" in line for line in said)
    node = Node(tmp_path)
    assert await node.take("/queue/kept", 99) == [b"kept %d" % number for number in range(10)]
    await node.stop()


async def test_compacting_leaves_the_log_that_a_cursor_keeps(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.publish("/queue/a", *[BODY] * 600)
    assert len(await node.take("/queue/a", 600)) == 600
    reported: list[BaseException | None] = []
    low = node.journal.span().low
    node.journal.set_cursor("archive", low, reported.append)
    assert reported == [None]
    node.kill()
    lines: list[str] = []
    offline.compact(tmp_path, lines.append)
    assert any("kept for the cursors of its readers: archive" in line for line in lines)
    node = Node(tmp_path)
    assert node.journal.span().low == low
    assert node.journal.cursors()["archive"].lost is None
    await node.stop()


async def test_compacting_an_idle_journal_never_makes_it_larger(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.publish("/queue/a", *[BODY] * 20)
    await node.stop()
    first = offline.compact(tmp_path, print)
    again = offline.compact(tmp_path, print)
    assert again.after <= again.before <= first.after < first.before
    node = Node(tmp_path)
    assert await node.take("/queue/a", 99) == [BODY] * 20
    assert node.report == []
    await node.stop()


async def test_compacting_keeps_to_the_size_of_the_segments_that_the_broker_uses(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.publish("/queue/a", *[BODY] * 20)
    node.kill()
    largest = 0

    def look(_: str) -> None:
        nonlocal largest
        largest = max(largest, *(path.stat().st_size for path in files(tmp_path, "*.seg")))

    offline.compact(tmp_path, look)
    assert largest == SEGMENT


async def test_a_damaged_snapshot_is_survived_whatever_was_given_up_and_carried(tmp_path: Path) -> None:
    node = Node(tmp_path)
    kept = []
    for number in range(8):
        kept.append(b"kept %d" % number)
        await node.publish("/queue/kept", kept[-1])
        await node.publish("/queue/rest", *[BODY] * 120)
        await node.take("/queue/rest", 120)
        await node.stop()
        node = Node(tmp_path)
    statistics = node.journal.statistics()
    assert statistics["carry_files"]
    await node.stop()
    newest = max(files(tmp_path, "snapshot-*.snap"))
    whole = newest.read_bytes()
    copy = tmp_path / "copy"
    for at in range(0, len(whole), max(1, len(whole) // 30)):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(tmp_path, copy, ignore=shutil.ignore_patterns("copy"))
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        (copy / newest.name).write_bytes(flipped)
        node = Node(copy)
        assert [line.split(": ")[0] for line in node.report] == [str(copy / newest.name)]
        assert await node.take("/queue/kept", 99) == kept
        assert await node.take("/queue/rest", 99) == []
        await node.stop()


async def worn_journal(directory: Path) -> list[bytes]:
    """A journal with snapshots, carry files and logs behind them; the bodies that wait in queue `kept`."""
    node = Node(directory)
    kept = []
    for number in range(6):
        kept.append(b"kept %d;" % number)
        await node.publish("/queue/kept", kept[-1])
        await node.publish("/queue/rest", *[BODY] * 120)
        await node.take("/queue/rest", 120)
        await node.stop()
        node = Node(directory)
    assert node.journal.statistics()["carry_files"]
    kept.append(b"kept last;")
    await node.publish("/queue/kept", kept[-1])
    node.kill()
    return kept


async def test_repairing_without_any_snapshot_loses_nothing_that_can_be_read(tmp_path: Path) -> None:
    kept = await worn_journal(tmp_path)
    for snapshot in files(tmp_path, "snapshot-*.snap"):
        snapshot.write_bytes(b"")
    before = contents(tmp_path)
    looked = offline.repair(tmp_path, skip_damaged=True, dry_run=True)
    refused = offline.repair(tmp_path, skip_damaged=False, dry_run=False)
    assert contents(tmp_path) == before
    assert looked == refused
    assert any(damage.carried for damage in looked.damages)

    done = offline.repair(tmp_path, skip_damaged=True, dry_run=False)
    assert not done.lost
    aside = {path.name for path in files(tmp_path, "damaged-1/*")}
    assert {name for name in before if name.startswith("snapshot-")} <= aside
    node = Node(tmp_path)
    assert node.report == []
    assert await node.take("/queue/kept", 99) == kept
    await node.publish("/queue/kept", b"afterwards")
    await node.stop()
    node = Node(tmp_path)
    assert await node.take("/queue/kept", 99) == [b"afterwards"]
    await node.stop()


async def test_repairing_reports_the_exact_loss_and_requires_consent(tmp_path: Path) -> None:
    kept = await worn_journal(tmp_path)
    carry = next(path for path in files(tmp_path, "carry-*.seg") if kept[1] in path.read_bytes())
    damage(tmp_path, kept[1])
    before = contents(tmp_path)
    looked = offline.repair(tmp_path, skip_damaged=True, dry_run=True)
    assert looked.lost == {"/queue/kept": 1}
    refused = offline.repair(tmp_path, skip_damaged=False, dry_run=False)
    assert (refused.kept, refused.lost) == ("", looked.lost)
    assert contents(tmp_path) == before

    done = offline.repair(tmp_path, skip_damaged=True, dry_run=False)
    assert (done.lost, done.waiting) == (looked.lost, looked.waiting)
    assert (Path(done.kept) / carry.name).read_bytes() == before[carry.name]
    node = Node(tmp_path)
    assert node.report == []
    assert await node.take("/queue/kept", 99) == [kept[0], *kept[2:]]
    await node.stop()


@pytest.mark.parametrize("kind", ["snapshot-*.snap", "carry-*.seg", "log-*.seg", "*.idx", "meta.json"])
async def test_a_flipped_bit_anywhere_loses_nothing_that_can_be_read(tmp_path: Path, kind: str) -> None:
    """The node starts with all that is whole, or names the file; then repair reports exactly what is lost."""
    whole, copy = tmp_path / "whole", tmp_path / "copy"
    kept = await worn_journal(whole)
    for _ in range(6):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        path = random.choice(files(copy, kind))
        content = bytearray(path.read_bytes())
        at = random.randrange(len(content.rstrip(b"\0")))
        content[at] ^= 1 << random.randrange(8)
        path.write_bytes(content)
        place = f"{path.name}, byte {at}"
        told = 0
        if not starts(copy, path.name):
            before = contents(copy)
            looked = offline.repair(copy, skip_damaged=False, dry_run=True)
            assert looked.damages or looked.lost, place
            assert contents(copy) == before, place
            done = offline.repair(copy, skip_damaged=True, dry_run=False)
            assert done.lost == looked.lost, place
            unknown = sum(
                damage.positions[1] - damage.positions[0] for damage in done.damages if damage.positions
            )
            told = sum(done.lost.values()) + unknown
        node = Node(copy)
        there = await node.take("/queue/kept", 99)
        cut = any("was cut" in line for line in node.report)
        dead = node.engine.broker.destinations.queues.get("/queue/kept.dead")
        missing = len(kept) - len(there) - (0 if dead is None else dead.depth)
        assert [body for body in kept if body in there] == there, place
        assert missing <= told + cut, place
        assert node.engine.ended is None, place
        await node.stop()


async def test_a_damaged_batch_that_is_older_than_the_snapshot_is_cut_out_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    kept = await worn_journal(tmp_path)
    last = files(tmp_path, "log-*.seg")[-1]
    content = bytearray(last.read_bytes())
    content[1190] ^= 1
    last.write_bytes(content)
    assert not starts(tmp_path, last.name)
    done = offline.repair(tmp_path, skip_damaged=False, dry_run=False)
    assert [(damage.file, damage.positions) for damage in done.damages] == [(last.name, None)]
    assert done.lost == {}
    node = Node(tmp_path)
    assert await node.take("/queue/kept", 99) == kept
    await node.stop()


def starts(directory: Path, damaged: str) -> bool:
    """True if a node starts. When it does not, the error names what is damaged, or what is wanted.

    It is tried in a copy: a start cuts an incomplete last batch off, and reports it only that once.
    """
    copy = directory.with_name("trial")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(directory, copy)
    journal, broker = SegmentJournal(copy, segment_bytes=SEGMENT), Broker()
    error = ""
    try:
        rebuild(broker, journal)
        journal.set_live_positions(live_positions(broker))
    except JournalDamaged as damage:
        error = str(damage)
    journal.close()
    assert not error or damaged in error or "is needed but not stored" in error
    return not error


async def test_a_missing_carry_file_is_reported_with_its_messages(tmp_path: Path) -> None:
    kept = await worn_journal(tmp_path)
    carries = files(tmp_path, "carry-*.seg")
    carried = [body for body in kept if any(body in path.read_bytes() for path in carries)]
    for path in carries:
        path.unlink()
    assert offline.repair(tmp_path, skip_damaged=False, dry_run=False).kept == ""
    done = offline.repair(tmp_path, skip_damaged=True, dry_run=False)
    assert done.lost == {"/queue/kept": len(carried)}
    node = Node(tmp_path)
    assert await node.take("/queue/kept", 99) == [body for body in kept if body not in carried]
    await node.stop()


async def test_a_history_with_lost_messages_is_repaired(tmp_path: Path) -> None:
    def keeping() -> Node:
        node = Node(tmp_path)
        node.engine.submit(
            c.Reconfigure(Policies(prefixes={"/topic/": DestinationPolicy(retention_ms=10**9)}))
        )
        return node

    node = keeping()
    for number in range(3):
        await node.publish("/topic/t", b"told %d;" % number * 300)
        await node.publish("/queue/rest", *[BODY] * 120)
    await node.stop()
    damage(tmp_path, b"told 1;")
    done = offline.repair(tmp_path, skip_damaged=True, dry_run=False)
    assert done.lost == {"/topic/t": 1}
    node = keeping()
    assert len(node.engine.broker.histories.histories["/topic/t"]) == 2
    await node.stop()


async def test_a_killed_compaction_can_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(tmp_path)
    await node.publish("/queue/kept", b"kept")
    await node.publish("/queue/a", *[BODY] * 300)
    await node.take("/queue/a", 300)
    node.kill()

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(codec, "encode_carried", killed)
        with pytest.raises(KeyboardInterrupt):
            offline.compact(tmp_path, print)
    assert offline.compact(tmp_path, print).waiting == 1
    node = Node(tmp_path)
    assert await node.take("/queue/kept", 9) == [b"kept"]
    await node.stop()
