"""The copy of the change record in the store of a shared journal."""

from __future__ import annotations

from pathlib import Path

from broker_app.features.cluster.record.change_record import DESTINATION, ChangeRecord, Entry, Version
from broker_app.features.cluster.record.record_copy import RecordCopy
from broker_app.features.cluster.record.record_file import NAME, RecordFile
from broker_app.journal.shared.shared_journal import SharedJournal
from broker_app.journal.store import Holder
from broker_app.journal.stores.directory.store import FileStore


def entry(name: str, number: int) -> Entry:
    return Entry(DESTINATION, f"/queue/{name}", Version(number, "b1"), {"max_messages": number})


async def test_who_takes_over_has_the_newest_of_the_copy_and_of_its_own_file(tmp_path: Path) -> None:
    active, mirror = tmp_path / "active", tmp_path / "mirror"
    for data in (active, mirror):
        data.mkdir()
    RecordFile(active / NAME).append([entry("a", 3), entry("b", 1)], configuration=7)
    RecordFile(mirror / NAME).append([entry("a", 1), entry("b", 2)], configuration=9)
    first = SharedJournal(FileStore(tmp_path / "store", "B"), Holder("first"))
    first.open()
    await RecordCopy(active, first).store()
    first.close()

    second = SharedJournal(FileStore(tmp_path / "store", "B"), Holder("second"))
    second.open()
    await RecordCopy(mirror, second).restore()
    found = RecordFile(mirror / NAME).read()
    record = ChangeRecord(found.entries)
    assert [record.value(DESTINATION, f"/queue/{name}") for name in "ab"] == [
        {"max_messages": 3},
        {"max_messages": 2},
    ]
    assert found.configuration == 7, "that of the broker that was active"

    second.put_note("cluster_record", b"my notes\n")
    await RecordCopy(mirror, second).restore()
    assert RecordFile(mirror / NAME).read() == found, "what is no record changes nothing"
    second.close()
