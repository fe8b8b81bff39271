"""Commands of manage.py."""

import getpass
import io
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from broker_app import node
from broker_app.config import Config
from broker_app.web import snapshot


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
    """Stands in for `node.run`: keeps what it was given and reports ready."""

    async def __call__(self, config: Config, logins: Any, *, ready: Any, **_: Any) -> None:
        self.logins = logins
        ready(node.Ports(8123, 61999, 61998 if config.tls_cert else None))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    started = Started()
    monkeypatch.setattr(node, "run", started)
    return started


def start(monkeypatch: pytest.MonkeyPatch, config: Config) -> str:
    monkeypatch.setattr(settings, "MOM", config)
    out = io.StringIO()
    call_command("broker", stdout=out)
    return out.getvalue()


@pytest.mark.django_db(transaction=True)
def test_the_first_start_shows_a_password_and_a_link_that_work(
    monkeypatch: pytest.MonkeyPatch, started: Started, client: Any
) -> None:
    said = start(monkeypatch, Config())
    assert "http://127.0.0.1:8123/console/" in said
    assert "127.0.0.1:61999" in said
    password = said.split("the password is ")[1].split()[0]
    assert f"curl -u admin:{password} -d hello http://127.0.0.1:8123/api/v1/queues/hello/messages" in said
    assert User.objects.get(username="admin").check_password(password)
    path = said.split("http://127.0.0.1:8123/login/once/")[1].split()[0]
    assert client.get(f"/login/once/{path}").headers["Location"] == "/console/welcome/"
    assert "the password is" not in start(monkeypatch, Config())


@pytest.mark.django_db(transaction=True)
def test_with_a_certificate_the_addresses_are_those_of_tls(
    monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    said = start(monkeypatch, Config(tls_cert=Path("server.pem")))
    assert "https://127.0.0.1:8123/console/" in said
    assert "127.0.0.1:61999 and stomp+tls://127.0.0.1:61998 and wss://127.0.0.1:8123/ws" in said
    assert "http://" not in said


def test_a_provider_that_does_not_know_us_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="oidc-client-id"):
        start(monkeypatch, Config(oidc_issuer="https://login.example"))


@pytest.mark.django_db(transaction=True)
def test_a_given_password_is_never_shown(monkeypatch: pytest.MonkeyPatch, started: Started) -> None:
    said = start(monkeypatch, Config(admin_password="administrator's own"))
    assert "administrator's own" not in said
    assert "curl -u admin -d hello" in said


@pytest.mark.django_db(transaction=True)
def test_anonymous_mode_warns_loudly_and_needs_no_login(
    monkeypatch: pytest.MonkeyPatch, started: Started
) -> None:
    said = start(monkeypatch, Config(anonymous=True, host="::"))
    assert "ANONYMOUS MODE" in said
    assert "curl -d hello http://[::1]:8123/" in said
    assert started.logins.anonymous() is not None


@pytest.mark.django_db(transaction=True)
def test_an_address_that_is_taken_is_told_without_a_trace_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: Any, **__: Any) -> None:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(node, "run", refused)
    with pytest.raises(CommandError, match="Address already in use"):
        start(monkeypatch, Config())


def test_each_new_secret_key_is_private_and_stays(tmp_path: Path) -> None:
    from mom_site.secret import secret_key

    key = secret_key(tmp_path / "data")
    assert len(key) >= 50
    assert secret_key(tmp_path / "data") == key
    assert (tmp_path / "data" / "secret_key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["secret_key"]
