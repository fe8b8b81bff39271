"""A broker does not start with files that other users can write: they would decide about its rights."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from broker_app.config import Config
from broker_app.config import settings as table
from broker_app.net.tls.certificates import Certificates
from broker_app.node import process
from broker_app.reflex.libraries import library_loader
from broker_app.zero import Folder
from broker_app.zero.file_reader import Unreadable
from tests.support.samples import sample

NOBODY = 65534
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users"),
    pytest.mark.django_db(transaction=True, databases=["default", "pipeline"]),
]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The settings of brokers that were started."""
    started: list[Config] = []

    async def run(config: Config, *_: Any, **__: Any) -> None:
        started.append(config)

    monkeypatch.setattr(process, "run", run)
    return started


def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **given: Any) -> None:
    config = Config(**{"data": tmp_path / "data", **given}, port=0, stomp_port=0, stomp_tls_port=-1)
    monkeypatch.setattr(settings, "MOM", config)
    call_command("broker", stdout=io.StringIO())


def _file(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _journal(place: Path) -> Path:
    return _file(place / "mom_journal_mom" / "notes" / "configuration", "{}")


#: by kind: settings that name something in a directory, and what is there and is another user's
PLACES: dict[str, Callable[[Path], tuple[dict[str, Any], Path]]] = {
    "data": lambda at: ({"data": at}, at),
    "database": lambda at: ({"data": at}, _file(at / "config.sqlite3")),
    "journal": lambda at: ({"data": at}, _file(at / "journal" / "1.seg")),
    "config-file": lambda at: ({"config_file": at / "z"}, _file(at / "z")),
    "included": lambda at: (
        {"config_file": _file(at / "z", '@include "rules.config"\n')},
        _file(at / "rules.config"),
    ),
    "secret-key-file": lambda at: ({"secret_key_file": at / "key"}, _file(at / "key", "secret")),
    "reflex-file": lambda at: ({"reflex_file": at / "a.cnf"}, _file(at / "a.cnf")),
    "reflex-path": lambda at: ({"reflex_path": at}, _file(at / "helpers" / "one.py")),
    "private-journal": lambda at: ({"private_journal": at, "journal": "redis://127.0.0.1:1"}, _journal(at)),
    "shared-journal": lambda at: ({"journal": f"file:{at}"}, _journal(at)),
    "file of tls-ca": lambda at: ({"tls_ca": at / "ca"}, _file(at / "ca")),
    "shared database": lambda at: ({"database": f"sqlite:///{at}/c.sqlite3"}, _file(at / "c.sqlite3")),
}


@pytest.mark.parametrize("kind", sample(PLACES, 4))
def test_a_file_of_another_user_is_refused_and_so_is_one_in_its_directory(
    monkeypatch: pytest.MonkeyPatch, started: list[Config], tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    given, foreign = PLACES[kind](place)
    os.chown(foreign, NOBODY, NOBODY)
    with pytest.raises(CommandError, match=rf"{foreign.name} belongs to nobody.*chown (-R )?root"):
        start(monkeypatch, tmp_path, **given)
    os.chown(foreign, 0, 0)
    place.chmod(0o777)
    with pytest.raises(CommandError, match=rf"place.* belongs to root.*mode 0777.*chmod o-w {place}"):
        start(monkeypatch, tmp_path, **given)
    assert not started


def test_all_faults_are_listed_at_once_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, started: list[Config], tmp_path: Path
) -> None:
    key, secret = _file(tmp_path / "key"), _file(tmp_path / "password", "hidden")
    for path in (key, secret):
        path.chmod(0o666)
    monkeypatch.setenv("MOM_SMTP_FILE", str(secret))
    with pytest.raises(CommandError) as refused:
        start(monkeypatch, tmp_path, secret_key_file=key)
    assert f"MOM_SECRET_KEY_FILE: {key} belongs" in str(refused.value)
    assert f"MOM_SMTP_FILE: {secret} belongs" in str(refused.value)
    assert not (tmp_path / "data").exists()
    assert not started


def test_files_of_ones_own_and_those_that_come_with_mom_are_accepted(
    monkeypatch: pytest.MonkeyPatch, started: list[Config], tmp_path: Path
) -> None:
    start(
        monkeypatch, tmp_path, reflex_file=Path("CBdefault.cnf"), config_file=_file(tmp_path / "zero.config")
    )
    start(monkeypatch, tmp_path, reflex_file=Path("CBdefault.cnf"))
    assert len(started) == 2


def test_each_setting_that_is_a_path_is_checked(
    monkeypatch: pytest.MonkeyPatch, started: list[Config], tmp_path: Path
) -> None:
    foreign = tmp_path / "theirs"
    foreign.mkdir()
    _file(foreign / "reflex_file")
    os.chown(foreign, NOBODY, NOBODY)
    paths = [row for row in table() if row.type == "Path"]
    assert len(paths) > 8
    with pytest.raises(CommandError) as refused:
        start(monkeypatch, tmp_path, **{row.name: foreign / row.name for row in paths})
    missing = [row.variable for row in paths if row.variable not in str(refused.value)]
    assert not missing


def test_files_that_are_read_again_are_checked_again(tmp_path: Path) -> None:
    file = _file(tmp_path / "zero.config")
    folder = Folder(tmp_path, owned=True)
    folder.read(file.name)
    file.chmod(0o666)
    with pytest.raises(Unreadable, match=r"mode 0666.*touch"):
        folder.read(file.name)
    Folder(tmp_path).read(file.name)  # commands read what they only show


def test_the_library_of_another_user_is_not_loaded(tmp_path: Path) -> None:
    _file(tmp_path / "mine.py", "import helper_of_mine")
    helper = _file(tmp_path / "helper_of_mine.py")
    os.chown(helper, NOBODY, NOBODY)
    with pytest.raises(Exception, match=r"helper_of_mine\.py belongs to nobody"):
        library_loader.load("mine", str(tmp_path))


def test_a_certificate_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    file = _file(tmp_path / "both.pem")
    file.chmod(0o646)
    with pytest.raises(Exception, match=r"tls-cert: .*both\.pem belongs to root.*mode 0646"):
        Certificates(Config(tls_cert=file))
