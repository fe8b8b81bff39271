"""Programs of the machine of a callback broker: their token, and the file by which they find the broker."""

from __future__ import annotations

import json
import os

from django.contrib.auth.models import User

from broker_app.base.settings.roles import CALLBACK
from broker_app.config import Config
from broker_app.management.welcome import Welcome, write_private
from broker_app.models import Token
from broker_app.web import actions
from mom_client.callback_broker import file_path, read_file

_TOKEN = "programs-of-this-machine"


class HostPrograms:
    """Lets programs of the user who runs a callback broker find it, while it runs."""

    def __init__(self) -> None:
        admin = User.objects.get(username=actions.ADMIN)
        for former in Token.objects.filter(owner=admin, name=_TOKEN):
            actions.revoke_token(actions.SYSTEM, former)
        self._secret = actions.create_token(actions.SYSTEM, admin, _TOKEN).secret
        self._path = file_path()

    @classmethod
    def of(cls, config: Config) -> HostPrograms | None:
        """The programs of a callback broker; None for any other broker."""
        return cls() if config.role == CALLBACK else None

    def ready(self, welcome: Welcome) -> None:
        """The broker listens: write the file."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = {
            "url": welcome.url,
            "stomp": f"stomp://{welcome.stomp_address}",
            "token": self._secret,
            "pid": os.getpid(),
        }
        write_private(self._path, json.dumps(facts))

    def stopped(self) -> None:
        """The broker has stopped: remove its file. That of another callback broker, which has replaced it,
        stays: programs find that one by it."""
        written = read_file()
        if written is not None and written.token == self._secret:
            self._path.unlink(missing_ok=True)
