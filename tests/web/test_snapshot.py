"""The policy holds what the models say, and follows them."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from broker_app.config import Config
from broker_app.net.auth.login import Identity
from broker_app.net.policy.destination_settings import Destinations, node_values
from broker_app.net.policy.policy import Policy
from broker_app.web import actions, snapshot
from tests.support.patience import patient


@pytest.mark.django_db
def test_the_policy_holds_active_users_and_their_tokens() -> None:
    actions.ensure_admin("administrator")
    john, jane = (
        actions.create_user(actions.SYSTEM, name, "correct horse battery") for name in ("john", "jane")
    )
    expires = datetime(2100, 1, 1, tzinfo=UTC)
    actions.create_token(actions.SYSTEM, john, "laptop", expires)
    actions.create_token(actions.SYSTEM, jane, "phone")
    User.objects.filter(pk=jane.pk).update(is_active=False)

    policy = snapshot.read_policy(anonymous=True)

    assert set(policy.users) == {"admin", "john"}
    assert policy.users["admin"].admin and not policy.users["john"].admin
    assert [(facts.user, facts.name, facts.expires) for facts in policy.tokens.values()] == [
        ("john", "laptop", expires.timestamp())
    ]
    assert policy.version == snapshot.read_version()
    assert policy.anonymous
    assert john.password not in repr(policy)


@pytest.mark.django_db
def test_an_empty_database_is_a_policy_without_logins() -> None:
    destinations = Destinations({}, node_values(Config()))
    assert snapshot.read_policy(anonymous=False) == Policy(destinations=destinations)


@pytest.mark.django_db(transaction=True)
async def test_logins_know_passwords_tokens_and_browser_sessions() -> None:
    john = await sync_to_async(actions.create_user)(actions.SYSTEM, "john", "correct horse battery")
    secret = (await sync_to_async(actions.create_token)(actions.SYSTEM, john, "laptop")).secret
    client = Client()
    await sync_to_async(client.force_login)(john)
    cookie = f"mom_session={client.cookies['mom_session'].value}"

    logins = await sync_to_async(snapshot.make_logins)(False)

    assert await logins.authenticate("john", "correct horse battery") == Identity("john")
    assert logins.bearer(secret) == Identity("john", "laptop")
    assert await logins.authenticate_cookie(cookie) == Identity("john")
    assert await logins.authenticate_cookie("mom_session=other") is None


@pytest.mark.django_db(transaction=True)
async def test_a_new_password_ends_the_browser_sessions_of_the_old_one() -> None:
    john = await sync_to_async(actions.create_user)(actions.SYSTEM, "john", "correct horse battery")
    client = Client()
    await sync_to_async(client.force_login)(john)
    key = client.cookies["mom_session"].value
    await sync_to_async(actions.set_password)(actions.SYSTEM, john, "another horse battery")
    assert await asyncio.to_thread(snapshot.session_user, key) is None


@pytest.mark.django_db(transaction=True)
def test_the_version_is_read_again_only_when_another_connection_has_written() -> None:
    version = snapshot.VersionReader()
    before = version.read()
    with CaptureQueriesContext(connection) as asked:
        assert version.read() == before
    assert [query["sql"] for query in asked] == ["PRAGMA data_version"]
    with contextlib.closing(sqlite3.connect(connection.settings_dict["NAME"])) as other, other:
        other.execute("INSERT INTO broker_app_policyversion (id, number) VALUES (1, 7)")
    assert version.read() == 7 != before


@pytest.mark.django_db(transaction=True)
def test_the_version_is_read_again_over_another_connection() -> None:
    version = snapshot.VersionReader()
    version.read()
    connection.close()
    with contextlib.closing(sqlite3.connect(connection.settings_dict["NAME"])) as other, other:
        other.execute("INSERT INTO broker_app_policyversion (id, number) VALUES (1, 7)")
    assert version.read() == 7


@contextlib.asynccontextmanager
async def following(interval_s: float) -> AsyncIterator[Callable[[], asyncio.Future[Policy]]]:
    """Follows the policy; the function it gives awaits the next one."""
    policies: asyncio.Queue[Policy] = asyncio.Queue()
    known = await sync_to_async(snapshot.read_policy)(False)
    task = asyncio.create_task(snapshot.follow(known, dict, policies.put_nowait, interval_s))
    await asyncio.sleep(0)  # it connects to the signal in its first step
    yield lambda: asyncio.ensure_future(asyncio.wait_for(policies.get(), patient(10)))
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.django_db(transaction=True)
async def test_a_change_by_this_process_is_noticed_at_once() -> None:
    async with following(interval_s=3600) as next_policy:
        await sync_to_async(actions.create_user)(actions.SYSTEM, "john", "correct horse battery")
        assert "john" in (await next_policy()).users
        await sync_to_async(actions.create_user)(actions.SYSTEM, "jane", "correct horse battery")
        assert "jane" in (await next_policy()).users


@pytest.mark.django_db(transaction=True)
async def test_a_change_by_another_process_is_noticed_after_the_interval() -> None:
    await sync_to_async(actions.create_user)(actions.SYSTEM, "john", "correct horse battery")
    async with following(interval_s=0.02) as next_policy:
        with contextlib.closing(sqlite3.connect(connection.settings_dict["NAME"])) as other, other:
            other.execute("UPDATE auth_user SET is_active = 0")
            other.execute("UPDATE broker_app_policyversion SET number = number + 1")
        assert "john" not in (await next_policy()).users


@pytest.mark.django_db(transaction=True)
async def test_when_tokens_were_used_is_written_down_and_changes_nothing() -> None:
    john = await sync_to_async(actions.create_user)(actions.SYSTEM, "john", "correct horse battery")
    made = [
        await sync_to_async(actions.create_token)(actions.SYSTEM, john, name) for name in ("laptop", "spare")
    ]
    logins = await sync_to_async(snapshot.make_logins)(False)
    assert logins.bearer(made[0].secret) is not None
    known = logins.policy
    follow = snapshot.follow(known, logins.take_used, lambda policy: None, 0.01, note_every_s=0.0)
    task = asyncio.create_task(follow)
    laptop, spare = (new.token for new in made)
    async with asyncio.timeout(patient(10)):
        while laptop.last_used is None:
            await asyncio.sleep(0.01)
            await sync_to_async(laptop.refresh_from_db)()
    task.cancel()
    await asyncio.wait([task])
    await sync_to_async(spare.refresh_from_db)()
    assert spare.last_used is None
    assert await sync_to_async(snapshot.read_version)() == known.version


@pytest.mark.django_db(transaction=True)
async def test_an_expired_token_leaves_the_policy_without_a_change() -> None:
    john = await sync_to_async(actions.create_user)(actions.SYSTEM, "john", "correct horse battery")
    for name, lasts_s in (("short", patient(0.5)), ("long", 3600), ("for ever", None)):
        expires = datetime.now(UTC) + timedelta(seconds=lasts_s) if lasts_s is not None else None
        await sync_to_async(actions.create_token)(actions.SYSTEM, john, name, expires)
    async with following(interval_s=3600) as next_policy:
        policy = await next_policy()
    assert {facts.name for facts in policy.tokens.values()} == {"long", "for ever"}
