"""Files that take long to make are made once, and are complete wherever they are used."""

from pathlib import Path

import pytest

from tests.support.made_once import made_once


def test_what_was_made_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MADE_ONCE", str(tmp_path))
    assert made_once("it", Path.mkdir) == made_once("it", Path.mkdir) == tmp_path / "it"


def test_what_failed_halfway_is_not_there_and_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MADE_ONCE", str(tmp_path))

    def fail_halfway(place: Path) -> None:
        place.mkdir()
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        made_once("it", fail_halfway)
    assert not (tmp_path / "it").exists()
    assert made_once("it", Path.mkdir).is_dir()


@pytest.mark.process
def test_postgresql_servers_of_a_run_start_with_copies_of_one_directory(tmp_path: Path) -> None:
    from tests.support.postgres import Postgres

    servers = [Postgres(tmp_path / name) for name in ("one", "other")]
    for server in servers:
        server.create()
    identifiers = [(server.directory / "global" / "pg_control").read_bytes()[:8] for server in servers]
    assert identifiers[0] == identifiers[1]
