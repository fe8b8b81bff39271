"""The change record: versions decide, digests show differences, and the file survives what happens to it."""

from pathlib import Path
from random import Random

import msgspec
import pytest

from broker_app.features.cluster.record import change_record
from broker_app.features.cluster.record.change_record import (
    DESTINATION,
    Change,
    ChangeRecord,
    Entry,
    Version,
)
from broker_app.features.cluster.record.record_file import RecordFile, UnreadableRecord
from broker_app.features.cluster.record.record_messages import MOST_BYTES, in_parts


def entry(number: int, name: str = "/queue/a", broker: str = "b1", value: int | None = 1) -> Entry:
    return Entry(
        DESTINATION, name, Version(number, broker), None if value is None else {"max_messages": value}
    )


class TestMerging:
    def test_any_order_ends_in_the_same_record(self) -> None:
        chance = Random(7)
        changes = [
            entry(
                chance.randrange(1, 40),
                f"/queue/{chance.randrange(9)}",
                chance.choice("abc"),
                chance.choice((1, None)),
            )
            for _ in range(200)
        ]
        first = ChangeRecord(changes)
        for _ in range(20):
            # Two changes with one version do not exist.
            known = {(change.name, change.version): change for change in changes}
            mixed = list(known.values())
            chance.shuffle(mixed)
            other = ChangeRecord(mixed)
            assert other.digest == first.digest
            assert {one.key: one.version for one in other.entries()} == {
                one.key: one.version for one in first.entries()
            }

    def test_only_newer_entries_are_taken(self) -> None:
        record = ChangeRecord([entry(5)])
        assert record.merge([entry(5), entry(4), entry(5, broker="a")]) == []
        assert record.merge([entry(5, broker="c")]) == [entry(5, broker="c")]

    def test_of_two_values_with_one_version_all_brokers_keep_the_same(self) -> None:
        # A broker that has lost its file counts from the beginning.
        one, other = entry(1, value=5), entry(1, value=3)
        forward, backward = ChangeRecord([one, other]), ChangeRecord([other, one])
        assert forward.entries() == backward.entries()
        assert ChangeRecord([one]).digest != ChangeRecord([other]).digest, "so that the difference is seen"

    def test_a_deleted_name_does_not_come_back_with_an_older_version(self) -> None:
        record = ChangeRecord([entry(1), entry(3, value=None)])
        record.merge([entry(2)])
        assert record.value(DESTINATION, "/queue/a") is None
        assert len(record) == 0

    def test_the_next_version_is_above_all_that_were_seen(self) -> None:
        record = ChangeRecord([entry(9, broker="b7")])
        assert record.next_version("b1") == Version(10, "b1")
        assert record.next_version("b1") == Version(11, "b1")

    def test_what_is_no_entry_is_left_out(self) -> None:
        record = ChangeRecord()
        strange = [
            Entry("other", "a", Version(1, "b"), {}),
            entry(0),
            entry(1 << 63),
            entry(1, "x" * 1001),
            entry(1, broker="x" * 101),
            Entry(DESTINATION, "a", Version(1, "b"), {"text": "x" * 40_000}),
            Entry(DESTINATION, "a", Version(1, "b"), {str(number): 1 for number in range(201)}),
            Entry(DESTINATION, "a", Version(1, "b"), {"list": []}),
            Entry(DESTINATION, "a", Version(1, "b"), {"what no file can have": msgspec.msgpack.Ext(5, b"")}),
        ]
        assert record.merge(strange) == []

    def test_a_full_record_takes_changes_of_what_it_has(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(change_record, "MOST", 2)
        record = ChangeRecord([entry(1, "/queue/a"), entry(1, "/queue/b")])
        assert record.merge([entry(2, "/queue/c"), entry(2, "/queue/a")]) == [entry(2, "/queue/a")]

    def test_a_record_has_bounded_bytes_and_deletions_make_room(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def large(number: int, name: str, length: int = 10_000) -> Entry:
            return Entry(DESTINATION, name, Version(number, "b1"), {"dead_letters": "x" * length})

        monkeypatch.setattr(change_record, "MOST_BYTES", 25_000)
        record = ChangeRecord([large(1, "/queue/a"), large(2, "/queue/b"), large(3, "/queue/c")])
        assert len(record) == 2
        assert record.merge([large(4, "/queue/a", 11_000)]), "there is room for that"
        assert not record.merge([large(5, "/queue/a", 20_000)])
        wide: dict[str, object] = {"dead_letters": "x" * 10_000 + "\N{GRINNING FACE}"}
        assert record.refusal([Change(DESTINATION, "/queue/a", wide)]) is not None, "it takes more in memory"
        assert record.refusal([Change(DESTINATION, "/queue/c", {"dead_letters": "x" * 10_000})]) is not None
        assert record.refusal([Change(DESTINATION, "/queue/a", {"dead_letters": "x"})]) is None
        assert record.merge([entry(6, "/queue/b", value=None)])
        assert record.merge([large(7, "/queue/c")])

    def test_brokers_forget_the_same_deleted_entries(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(change_record, "MOST_DELETED", 3)
        deleted = [entry(number, f"/queue/{number}", value=None) for number in range(1, 8)]
        forward, backward = ChangeRecord(deleted), ChangeRecord(reversed(deleted))
        assert forward.digest == backward.digest
        assert sorted(one.version.number for one in forward.entries()) == [5, 6, 7]


class TestDigests:
    def test_the_difference_is_little_of_a_large_record(self) -> None:
        entries = [entry(number, f"/queue/{number}") for number in range(1, 3001)]
        ours, theirs = ChangeRecord(entries), ChangeRecord(entries)
        assert list(ours.difference(theirs.bucket_digests())) == []
        ours.merge([entry(9_000, "/queue/7")])
        difference = list(ours.difference(theirs.bucket_digests()))
        assert entry(9_000, "/queue/7") in difference
        assert len(difference) < 20
        theirs.merge(difference)
        assert theirs.digest == ours.digest

    def test_entries_are_sent_in_messages_of_a_bounded_size(self) -> None:
        entries = [
            Entry(DESTINATION, f"/queue/{i}", Version(1, "b"), {"text": "x" * 900}) for i in range(300)
        ]
        parts = list(in_parts(entries))
        assert [one for part in parts for one in part] == entries
        assert len(parts) == -(-300 * 1000 // MOST_BYTES)


class TestFile:
    def test_what_was_appended_is_read(self, tmp_path: Path) -> None:
        file = RecordFile(tmp_path / "record")
        file.append([entry(1), entry(2, value=None)])
        file.append([entry(3)], configuration=17)
        again = RecordFile(tmp_path / "record")
        assert again.read() == ([entry(1), entry(2, value=None), entry(3)], 17, 5)
        assert (tmp_path / "record").stat().st_mode & 0o077 == 0, "others may not read it"

    def test_a_cut_last_line_is_removed(self, tmp_path: Path) -> None:
        path = tmp_path / "record"
        RecordFile(path).append([entry(1), entry(2)])
        path.write_bytes(path.read_bytes()[:-9])
        file = RecordFile(path)
        assert file.read().entries == [entry(1)]
        file.append([entry(3)])
        assert RecordFile(path).read().entries == [entry(1), entry(3)]

    def test_a_damaged_line_is_left_out(self, tmp_path: Path) -> None:
        path = tmp_path / "record"
        RecordFile(path).append([entry(1), entry(2), entry(3)])
        path.write_bytes(path.read_bytes().replace(b'"version":[2', b'"version":{2'))
        assert RecordFile(path).read().entries == [entry(1), entry(3)]

    def test_a_compacted_file_has_the_newest_only(self, tmp_path: Path) -> None:
        file = RecordFile(tmp_path / "record")
        file.append([entry(number) for number in range(1, 50)])
        file.rewrite(ChangeRecord(file.read().entries).entries(), configuration=3)
        file.append([entry(90)])
        assert file.read() == ([entry(49), entry(90)], 3, 4)

    def test_a_file_that_is_no_record_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "record"
        path.write_text("my notes\n")
        with pytest.raises(UnreadableRecord, match="move it away"):
            RecordFile(path).read()
        path.write_text('{"format":2}\n')
        with pytest.raises(UnreadableRecord, match="format 2"):
            RecordFile(path).read()
