"""A broker whose shared journal is not where it was: it begins no empty one beside the right one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerFailed
from tests.support.mirrors import Mirrors, mirrors_in, serves

pytestmark = pytest.mark.process


@pytest.fixture
def mirrors(processes: None, tmp_path: Path) -> Iterator[Mirrors]:
    with mirrors_in(tmp_path, "B", f"file:{tmp_path}/mount") as made:
        yield made


def test_a_broker_whose_directory_is_not_mounted_does_not_start(mirrors: Mirrors, tmp_path: Path) -> None:
    main = mirrors.make()
    main.start()
    main.request("POST", "/api/v1/queues/orders/messages", b"one", content_type="text/plain")
    main.terminate()
    (tmp_path / "mount").rename(tmp_path / "elsewhere")
    (tmp_path / "mount").mkdir()
    with pytest.raises(BrokerFailed, match="is empty, and this broker has used one in directory"):
        main.start()
    assert "mount its directory, or correct MOM_JOURNAL" in main.log
    assert list((tmp_path / "mount").iterdir()) == []
    (tmp_path / "mount").rmdir()
    (tmp_path / "elsewhere").rename(tmp_path / "mount")
    main.start()
    assert main.request("GET", "/api/v1/queues/orders").json()["depth"] == 1


def test_a_broker_begins_with_another_journal_when_it_is_told_to(mirrors: Mirrors, tmp_path: Path) -> None:
    main, other = mirrors.make(), mirrors.make(role=1, journal=f"file:{tmp_path}/other")
    main.start()
    main.terminate()
    other.start()
    other.terminate()
    main.environment["MOM_JOURNAL"] = f"file:{tmp_path}/other"
    with pytest.raises(BrokerFailed, match="is another one, and this broker has used one in directory"):
        main.start()
    (main.data / "shared_journal").unlink()
    main.start()
    assert serves(main)
