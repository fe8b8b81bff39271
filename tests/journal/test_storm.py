"""Random lives of a segment journal with small segments, each checked against a dictionary."""

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker_app.journal import codec
from broker_app.journal.inspect import verify

from .stage import SETTLED, Life, batch_of, published, quick_journal


class JournalStorm(RuleBasedStateMachine):
    @initialize(
        segment_bytes=st.sampled_from([256, 2048, 8192]),
        retention_bytes=st.sampled_from([0, 0, 5000]),
        cache_bytes=st.sampled_from([0, 1 << 20]),
    )
    def start(self, segment_bytes: int, retention_bytes: int, cache_bytes: int) -> None:
        self.options = {
            "segment_bytes": segment_bytes,
            "retention_bytes": retention_bytes,
            "cache_bytes": cache_bytes,
        }
        self.directory = tempfile.TemporaryDirectory()
        self.wanted: dict[int, bytes] = {}
        self.since_snapshot: list[tuple[int, bytes]] = []
        self.blob: bytes | None = None
        self.epoch = 0
        self.open()

    def open(self) -> None:
        self.life = Life(quick_journal(Path(self.directory.name), **self.options))
        assert self.life.recovery.snapshot == self.blob
        assert self.life.recovery.report == []
        assert self.life.journal.epoch > self.epoch
        self.epoch = self.life.journal.epoch
        replayed = self.life.restore(list(self.wanted))
        assert [(batch.first_position, batch.records) for batch in replayed] == self.since_snapshot

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.life.close()
            findings = list(verify(Path(self.directory.name)))
            assert not [finding for finding in findings if finding.damage], findings
            self.directory.cleanup()

    @rule(
        sizes=st.lists(st.sampled_from([0, 20, 300, 5000]), min_size=1, max_size=12),
        kept=st.integers(0, 2**12 - 1),
        freed=st.integers(0, 2**12 - 1),
        choice=st.randoms(use_true_random=False),
    )
    def commit(self, sizes: list[int], kept: int, freed: int, choice: Random) -> None:
        first = self.life.next
        records = [
            published(b"%d:" % (first + i) + bytes(size))
            if kept >> i & 1
            else codec.encode_record(SETTLED, bytes(size))
            for i, size in enumerate(sizes)
        ]
        keep = [first + i for i in range(len(sizes)) if kept >> i & 1]
        candidates = [*self.wanted, *keep]
        free = choice.sample(candidates, min(len(candidates), freed.bit_count()))
        self.life.commit(batch_of(first, records, keep=keep, free=free))
        self.since_snapshot.append((first, b"".join(records)))
        self.wanted.update({position: records[position - first] for position in keep})
        for position in free:
            del self.wanted[position]

    @precondition(lambda self: len(self.wanted) > 3)
    @rule(choice=st.randoms(use_true_random=False))
    def settle_nearly_all(self, choice: Random) -> None:
        free = choice.sample(list(self.wanted), len(self.wanted) - 2)
        record = codec.encode_record(SETTLED, b"")
        self.since_snapshot.append((self.life.next, record))
        self.life.commit(batch_of(self.life.next, [record], free=free))
        for position in free:
            del self.wanted[position]

    @rule(batches=st.integers(1, 12), size=st.sampled_from([20, 300]), keep=st.integers(0, 2))
    def flood(self, batches: int, size: int, keep: int) -> None:
        """Many messages of which few survive, and a snapshot: the stretch is worth being copied away."""
        for _ in range(batches):
            first = self.life.next
            positions = range(first, first + 12)
            records = [published(b"%d:" % position + bytes(size)) for position in positions]
            self.life.commit(batch_of(first, records, keep=positions, free=positions[keep:]))
            self.wanted.update(zip(positions[:keep], records, strict=False))
        self.snapshot(0)

    @rule(back=st.integers(0, 3))
    def snapshot(self, back: int) -> None:
        kept = (
            self.since_snapshot[len(self.since_snapshot) - back :] if back <= len(self.since_snapshot) else []
        )
        position = kept[0][0] if kept else self.life.next
        self.blob = b"state before %d" % position
        self.life.snapshot(self.blob, position)
        self.since_snapshot = kept

    @rule()
    def reopen(self) -> None:
        self.life.close()
        self.open()

    @rule(choice=st.randoms(use_true_random=False))
    def read_in_any_order(self, choice: Random) -> None:
        asked = choice.sample(list(self.wanted), len(self.wanted))
        assert self.life.read(asked) == [self.wanted[position] for position in asked]

    @invariant()
    def live_records_are_counted(self) -> None:
        if hasattr(self, "life"):
            assert self.life.journal.statistics()["live_records"] == len(self.wanted)


TestJournalStorm = pytest.mark.slow(JournalStorm.TestCase)
TestJournalStorm.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
