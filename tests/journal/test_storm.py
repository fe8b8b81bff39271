"""Random lives of journals with small segments, each checked against a dictionary."""

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from broker_app.journal import codec
from broker_app.journal.port import Journal
from broker_app.journal.shared.private_journal import IN_STEP
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder, Store
from broker_app.journal.stores.directory.store import FileStore
from broker_app.journal.stores.postgres import PostgresStore
from broker_app.journal.stores.redis import RedisStore
from broker_app.journal.tools.inspect import verify
from tests.support.chance import rounds
from tests.support.polling import poll

from .stage import SERVERS, SETTLED, Life, batch_of, content_of, published, quick_journal, set_now, whole_log


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
        self.written: dict[int, bytes] = {}
        self.cursors: dict[str, int] = {}
        self.blob: bytes | None = None
        self.epoch = 0
        self.open()

    def open(self) -> None:
        self.life = Life(self.journal())
        assert self.life.recovery.snapshot == self.blob
        assert self.life.recovery.report == []
        assert self.life.journal.epoch > self.epoch
        self.epoch = self.life.journal.epoch
        replayed = self.life.restore(list(self.wanted))
        assert [(batch.first_position, batch.records) for batch in replayed] == self.since_snapshot

    def journal(self) -> Journal:
        """The journal, not open yet."""
        return quick_journal(Path(self.directory.name), **self.options)

    def verify(self) -> None:
        findings = list(verify(Path(self.directory.name)))
        assert not [finding for finding in findings if finding.damage], findings

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.life.close()
            self.verify()
            self.directory.cleanup()

    def note(self, first: int, records: bytes) -> None:
        """A batch is committed."""
        self.since_snapshot.append((first, records))
        self.written[first] = records

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
        self.note(first, b"".join(records))
        self.wanted.update({position: records[position - first] for position in keep})
        for position in free:
            del self.wanted[position]

    @precondition(lambda self: len(self.wanted) > 3)
    @rule(choice=st.randoms(use_true_random=False))
    def settle_nearly_all(self, choice: Random) -> None:
        free = choice.sample(list(self.wanted), len(self.wanted) - 2)
        record = codec.encode_record(SETTLED, b"")
        self.note(self.life.next, record)
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
            self.written[first] = b"".join(records)
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

    @rule(max_bytes=st.sampled_from([1, 3000, 1 << 20]))
    def read_the_log(self, max_bytes: int) -> None:
        for batch in whole_log(self.life.journal, max_bytes):
            assert batch.records == self.written[batch.first_position]

    @rule(name=st.sampled_from("ab"), choice=st.randoms(use_true_random=False))
    def set_a_cursor(self, name: str, choice: Random) -> None:
        self.cursors[name] = choice.randint(*self.life.journal.span())
        set_now(self.life.journal, name, self.cursors[name])

    @rule(name=st.sampled_from("ab"))
    def drop_a_cursor(self, name: str) -> None:
        self.cursors.pop(name, None)
        self.life.journal.drop_cursor(name, lambda error: None)

    @invariant()
    def cursors_keep_the_log(self) -> None:
        if hasattr(self, "life"):
            states = self.life.journal.cursors()
            assert {name: state.position for name, state in states.items()} == self.cursors
            assert self.life.journal.span().low <= min(self.cursors.values(), default=self.life.next)

    @invariant()
    def live_records_are_counted(self) -> None:
        if hasattr(self, "life"):
            assert self.life.journal.statistics()["live_records"] == len(self.wanted)


TestJournalStorm = pytest.mark.slow(JournalStorm.TestCase)
TestJournalStorm.settings = settings(
    max_examples=len(rounds(20, 2_000)),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class SharedJournalStorm(JournalStorm):
    """The same, of a journal in a store; mostly with a private one, which has to be equal."""

    def make_store(self, folder: Path) -> Store:
        """The store of the journal of this life."""
        raise NotImplementedError

    def journal(self) -> Journal:
        folder = Path(self.directory.name)
        self.shared, self.private = self.make_store(folder), FileStore(folder / "private", "B1")
        private = self.private if self.options["segment_bytes"] != 2048 else None
        return SharedJournal(
            self.shared,
            Holder("one:8000"),
            private=private,
            segment_bytes=self.options["segment_bytes"],
            retention_bytes=self.options["retention_bytes"],
            cache_bytes=self.options["cache_bytes"],
        )

    def verify(self) -> None:
        """Nothing: what is damaged is noticed when the journal is opened."""

    @rule()
    def read_the_private_journal(self) -> None:
        journal = self.life.journal
        assert isinstance(journal, SharedJournal)
        if journal.private is not None:
            poll(lambda: journal.private is not None and journal.private.state == IN_STEP)
            assert content_of(self.private) == content_of(self.shared)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["files", *SERVERS])
def test_a_journal_in_a_store_survives_storms(kind: str, request: pytest.FixtureRequest) -> None:
    files = kind == "files"

    class Storm(SharedJournalStorm):
        def make_store(self, folder: Path) -> Store:
            if files:
                return FileStore(folder / "shared", "B1")
            # The name of the directory is unique, and so is each journal.
            url = request.getfixturevalue(kind).url
            return PostgresStore(url, folder.name) if kind == "postgres" else RedisStore(url, folder.name)

    # A server is slow, and a failure is described well enough by its steps.
    phases = tuple(Phase) if files else (Phase.generate,)
    storms = rounds(8, 300) if files else rounds(2, 60)
    chosen = settings(TestJournalStorm.settings, max_examples=len(storms), phases=phases)
    run_state_machine_as_test(Storm, settings=chosen)
