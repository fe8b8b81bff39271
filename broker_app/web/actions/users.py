"""Users: the first administrator, new ones, passwords."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.contrib.auth.models import User
from django.db import transaction

from broker_app.web.actions.actor import SYSTEM, Actor
from broker_app.web.actions.change_set import Changed, Conflict, Edit, apply, record_changes
from broker_app.web.resource_types import RESOURCE_TYPES
from broker_app.web.resource_types.users import UnvalidatedPassword

ADMIN = "admin"


@transaction.atomic
def ensure_admin(password: str | None, keep: Callable[[str], object] = lambda made_up: None) -> str | None:
    """Make sure that a user can log in, and return the generated password, if any.

    A given password becomes that of the user admin. Without one, and when there is no user yet,
    admin gets a random one, which `keep` is given before it holds.
    """
    if password is not None:
        admin = User.objects.filter(username=ADMIN).first()
        if admin is None or not (admin.is_active and admin.check_password(password)):
            _write_admin(password)
        return None
    if User.objects.exists():
        return None
    made_up = secrets.token_urlsafe(12)
    keep(made_up)
    _write_admin(made_up)
    return made_up


@transaction.atomic
def create_user(actor: Actor, name: str, password: str) -> User:
    """A new user without an administrator's rights. Raises ValidationError for a name or password that will
    not do, Conflict for a name that is taken."""
    if User.objects.filter(username=name).exists():
        raise Conflict(f"There is a user {name} already.")
    apply(actor, [Edit("users", name, {}, secrets={"password": password})])
    return User.objects.get(username=name)


@transaction.atomic
def set_password(actor: Actor, user: User, password: str) -> None:
    """Gives a user a new password; sessions and logins with the old one end. Raises ValidationError."""
    spec = RESOURCE_TYPES["users"].read([user.username])[user.username]
    apply(actor, [Edit("users", user.username, spec, secrets={"password": password})])
    user.refresh_from_db()


@contextmanager
def watched_users(actor: Actor) -> Iterator[None]:
    """Records what Django's own commands do to users within."""
    with transaction.atomic():
        before, passwords = RESOURCE_TYPES["users"].read(), _password_hashes()
        yield
        after, passwords_now = RESOURCE_TYPES["users"].read(), _password_hashes()
        changed = []
        for name in {**before, **after}:
            secrets_changed = ("password",) if passwords.get(name) != passwords_now.get(name) else ()
            if secrets_changed or before.get(name) != after.get(name):
                changed.append(Changed("users", name, before.get(name), after.get(name), secrets_changed, ""))
        if changed:
            record_changes(actor, changed)


def _password_hashes() -> dict[str, str]:
    return dict(User.objects.values_list("username", "password"))


def _write_admin(password: str) -> None:
    spec = RESOURCE_TYPES["users"].read([ADMIN]).get(ADMIN, {})
    spec |= {"administrator": True, "active": True}
    apply(SYSTEM, [Edit("users", ADMIN, spec, secrets={"password": UnvalidatedPassword(password)})])
