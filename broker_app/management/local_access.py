"""Access of `mom` on the machine of the broker: who can read the data directory can change the configuration.

The secret is of one process: the file of a broker that was killed opens nothing.
"""

from __future__ import annotations

import secrets

from broker_app.config import LOCAL_SECRET, Config
from broker_app.management.welcome import write_private
from broker_app.net.auth.login import Logins


class LocalAccess:
    """Lets requests with the secret of a file in the data directory act as the administrator."""

    def __init__(self, config: Config, logins: Logins) -> None:
        self._path = config.data / LOCAL_SECRET
        self._secret = f"mom_local_{secrets.token_urlsafe(32)}"
        logins.local_secret = self._secret.encode()

    def ready(self) -> None:
        """The broker listens: write the file. Raises OSError."""
        write_private(self._path, self._secret)

    def stopped(self) -> None:
        """The broker has stopped: remove the file."""
        self._path.unlink(missing_ok=True)
