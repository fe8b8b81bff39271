"""The first password of the administrator: in the data directory until it has been used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from django.contrib.auth.models import User

from broker_app.web import actions
from broker_app.web.auth import backends


class FirstPassword:
    """The file that has it; `write` makes one that only its user can read."""

    def __init__(self, path: Path, write: Callable[[Path, str], None]) -> None:
        self.path = path
        self._write = write

    def keep(self, password: str) -> None:
        self._write(self.path, password)

    def await_use(self) -> str | None:
        """The password, if it has not been used yet; from now on the first login deletes it."""
        if not self.path.exists():
            return None
        password = self.path.read_text(encoding="utf-8").strip()
        admin = User.objects.filter(username=actions.ADMIN, is_active=True).first()
        if admin is None or not admin.check_password(password):
            self._forget()
            return None
        backends.LOGIN_THROTTLE.on_success = self._heard
        return password

    def _heard(self, account: str) -> None:
        if account == actions.ADMIN:
            self._forget()

    def _forget(self) -> None:
        self.path.unlink(missing_ok=True)
