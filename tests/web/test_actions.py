"""Actions write the models, raise the version, and say so."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.utils import timezone

from broker_app.models import LoginLink, Token
from broker_app.web import actions, snapshot

pytestmark = pytest.mark.django_db


@pytest.fixture
def john() -> User:
    return actions.create_user(actions.SYSTEM, "john", "correct horse battery")


def test_only_the_first_start_creates_an_admin_with_a_generated_password() -> None:
    made_up = actions.ensure_admin(None)
    assert made_up is not None
    admin = User.objects.get(username="admin")
    assert admin.check_password(made_up)
    assert admin.is_superuser and admin.is_staff
    assert admin.password.startswith("argon2$argon2id$")
    assert actions.ensure_admin(None) is None


def test_a_given_password_becomes_admins_and_is_written_only_when_it_differs() -> None:
    assert actions.ensure_admin("first password") is None
    hash_before, version = User.objects.get(username="admin").password, snapshot.read_version()
    actions.ensure_admin("first password")
    assert (User.objects.get(username="admin").password, snapshot.read_version()) == (hash_before, version)
    actions.ensure_admin("second password")
    assert User.objects.get(username="admin").check_password("second password")
    assert snapshot.read_version() == version + 1


def test_no_password_is_generated_when_a_user_can_log_in(john: User) -> None:
    assert actions.ensure_admin(None) is None
    assert not User.objects.filter(username="admin").exists()


def test_each_change_raises_the_version_by_one(john: User) -> None:
    before = snapshot.read_version()
    token = actions.create_token(actions.SYSTEM, john, "laptop").token
    assert snapshot.read_version() == before + 1
    actions.set_password(actions.SYSTEM, john, "another horse battery")
    assert snapshot.read_version() == before + 2
    actions.revoke_token(actions.SYSTEM, token)
    assert snapshot.read_version() == before + 3


def test_a_change_that_is_refused_leaves_the_version_alone(john: User) -> None:
    actions.create_token(actions.SYSTEM, john, "laptop")
    before = snapshot.read_version()
    with pytest.raises(actions.Conflict):
        actions.create_token(actions.SYSTEM, john, "laptop")
    with pytest.raises(ValidationError):
        actions.create_token(actions.SYSTEM, john, "phone", expires=timezone.now() - timedelta(seconds=1))
    with pytest.raises(ValidationError):
        actions.set_password(actions.SYSTEM, john, "short")
    assert snapshot.read_version() == before


def test_a_token_is_stored_as_its_hash_alone(john: User) -> None:
    new = actions.create_token(actions.SYSTEM, john, "laptop")
    assert new.secret.startswith("mom_")
    assert new.secret not in repr(new)
    row = Token.objects.get()
    assert new.secret.startswith(row.prefix)
    assert not any(new.secret.encode() in bytes(str(value), "utf-8") for value in vars(row).values())


def test_a_login_link_works_once(john: User) -> None:
    secret = actions.create_login_link(john)
    assert actions.redeem_login_link(secret) == john
    assert actions.redeem_login_link(secret) is None


def test_a_login_link_of_another_time_or_user_does_not_work(john: User) -> None:
    old = actions.create_login_link(john)
    LoginLink.objects.update(expires=timezone.now())
    assert actions.redeem_login_link(old) is None
    assert actions.redeem_login_link("made-up") is None
    gone = actions.create_login_link(john)
    User.objects.update(is_active=False)
    assert actions.redeem_login_link(gone) is None


def test_links_that_ran_out_are_swept_when_a_new_one_is_made(john: User) -> None:
    actions.create_login_link(john)
    LoginLink.objects.update(expires=timezone.now())
    actions.create_login_link(john)
    assert LoginLink.objects.count() == 1
