"""Commands of manage.py."""

import getpass
import io
import stat
from pathlib import Path
from threading import enumerate as enumerate_threads
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from broker_app.config import Config
from broker_app.net.server.listeners import Ports
from broker_app.node import process
from broker_app.web import actions, snapshot


@pytest.mark.django_db
def test_passwords_and_users_of_djangos_commands_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "correct horse battery")
    call_command("createsuperuser", username="jane", email="", interactive=False, stdout=io.StringIO())
    first = snapshot.read_policy(anonymous=False)
    assert first.users["jane"].admin
    monkeypatch.setattr(getpass, "getpass", lambda *_, **__: "another horse battery")
    call_command("changepassword", "jane", stdout=io.StringIO())
    second = snapshot.read_policy(anonymous=False)
    assert second.version > first.version
    assert second.users["jane"].password_hash != first.users["jane"].password_hash


class Started:
    """Stands in for `process.run`: keeps what it was given and reports ready."""

    async def __call__(
        self, config: Config, logins: Any, listeners: Any, site: Any, *, ready: Any, **_: Any
    ) -> None:
        self.logins = logins
        ready(Ports(8123, 61999, 61998 if config.tls_cert else None))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    started = Started()
    monkeypatch.setattr(process, "run", started)
    return started


class Terminal(io.StringIO):
    """An output that a user reads at once."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def start(monkeypatch: pytest.MonkeyPatch, data: Path, out: type[io.StringIO] = Terminal, **said: Any) -> str:
    config = Config(data=data, port=0, stomp_port=0, stomp_tls_port=0, **said)
    monkeypatch.setattr(settings, "MOM", config)
    written = out()
    call_command("broker", stdout=written)
    assert "stop watch" not in [thread.name for thread in enumerate_threads()], "it would end this process"
    return written.getvalue()


@pytest.mark.django_db(transaction=True, databases=["default", "pipeline"])
def test_the_first_start_shows_a_password_and_a_link_that_work(
    monkeypatch: pytest.MonkeyPatch, started: Started, client: Any, data: Path
) -> None:
    said = start(monkeypatch, data)
    assert "http://127.0.0.1:8123/console/" in said
    assert "127.0.0.1:61999" in said
    password = said.split("the password is ")[1].split()[0]
    assert (
        f"curl -u admin:{password} -H 'Content-Type: text/plain' -d hello http://127.0.0.1:8123/api" in said
    )
    assert User.objects.get(username="admin").check_password(password)
    path = said.split("http://127.0.0.1:8123/login/once/")[1].split()[0]
    assert client.get(f"/login/once/{path}").headers["Location"] == "/console/welcome/"
    assert not (data / "login_link").exists()


@pytest.mark.django_db(transaction=True, databases=["default", "pipeline"])
def test_the_first_password_is_shown_until_its_first_login(
    monkeypatch: pytest.MonkeyPatch, started: Started, client: Any, data: Path
) -> None:
    password = start(monkeypatch, data).split("the password is ")[1].split()[0]
    assert f"the password is {password} " in start(monkeypatch, data)
    client.post("/login/", {"username": "admin", "password": "not it"})
    assert f"the password is {password} " in start(monkeypatch, data)
    assert client.post("/login/", {"username": "admin", "password": password}).status_code == 302
    assert "the password is" not in start(monkeypatch, data)
    assert not (data / "first_password").exists()


@pytest.mark.django_db(transaction=True, databases=["default", "pipeline"])
async def test_a_login_by_a_program_uses_the_first_password_too(
    monkeypatch: pytest.MonkeyPatch, started: Started, data: Path
) -> None:
    password = (await sync_to_async(start)(monkeypatch, data)).split("the password is ")[1].split()[0]
    assert await started.logins.authenticate("admin", password) is not None
    assert "the password is" not in await sync_to_async(start)(monkeypatch, data)


@pytest.mark.django_db(transaction=True, databases=["default", "pipeline"])
def test_a_first_password_that_was_changed_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, started: Started, data: Path
) -> None:
    start(monkeypatch, data)
    actions.set_password(actions.SYSTEM, User.objects.get(username="admin"), "another horse battery")
    assert "the password is" not in start(monkeypatch, data)
    assert not (data / "first_password").exists()


@pytest.mark.django_db(transaction=True, databases=["default", "pipeline"])
def test_without_a_terminal_secrets_are_in_private_files_and_not_in_the_log(
    monkeypatch: pytest.MonkeyPatch, started: Started, client: Any, data: Path
) -> None:
    said = start(monkeypatch, data, io.StringIO)
    files = [data / "first_password", data / "login_link"]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
    password, link = (file.read_text().strip() for file in files)
    assert password not in said and link not in said
    assert all(str(file) in said for file in files)
    assert User.objects.get(username="admin").check_password(password)
    assert client.get(link.partition(":8123")[2]).headers["Location"] == "/console/welcome/"


@pytest.mark.django_db(transaction=True, databases=["default", "pipeline"])
def test_the_address_of_the_broker_is_left_in_its_data(
    monkeypatch: pytest.MonkeyPatch, started: Started, data: Path
) -> None:
    start(monkeypatch, data)
    assert (data / "address").read_text() == "http://127.0.0.1:8123\n"


@pytest.mark.django_db(transaction=True, databases=["default", "pipeline"])
def test_with_a_certificate_the_addresses_are_those_of_tls(
    monkeypatch: pytest.MonkeyPatch, started: Started, data: Path
) -> None:
    said = start(monkeypatch, data, tls_cert=Path("server.pem"))
    assert "https://127.0.0.1:8123/console/" in said
    assert "127.0.0.1:61999 and stomp+tls://127.0.0.1:61998 and wss://127.0.0.1:8123/ws" in said
    assert "http://" not in said


def test_a_provider_that_does_not_know_the_broker_is_reported(
    monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    with pytest.raises(CommandError, match="oidc-client-id"):
        start(monkeypatch, data, oidc_issuer="https://login.example")


@pytest.mark.django_db(transaction=True, databases=["default", "pipeline"])
def test_a_given_password_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, started: Started, data: Path
) -> None:
    said = start(monkeypatch, data, admin_password="administrator's own")
    assert "administrator's own" not in said
    assert "curl -u admin -H 'Content-Type: text/plain' -d hello" in said


@pytest.mark.django_db(transaction=True, databases=["default", "pipeline"])
def test_anonymous_mode_warns_loudly_and_needs_no_login(
    monkeypatch: pytest.MonkeyPatch, started: Started, data: Path
) -> None:
    said = start(monkeypatch, data, anonymous=True, host="::")
    assert "ANONYMOUS MODE" in said
    assert "curl -H 'Content-Type: text/plain' -d hello http://[::1]:8123/" in said
    assert started.logins.anonymous() is not None


@pytest.mark.django_db(transaction=True, databases=["default", "pipeline"])
def test_a_node_that_ends_is_reported_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    async def ended(*_: Any, **__: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(process, "run", ended)
    with pytest.raises(CommandError, match="Input/output error"):
        start(monkeypatch, data)


def test_each_new_secret_key_is_private_and_stays(tmp_path: Path) -> None:
    from mom_site.secret import secret_key

    key = secret_key(tmp_path / "data" / "secret_key")
    assert len(key) >= 50
    assert secret_key(tmp_path / "data" / "secret_key") == key
    assert (tmp_path / "data" / "secret_key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["secret_key"]
