"""Browser sessions in the database, as Django keeps them, with a signal when one ends."""

from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.dispatch import Signal

#: sent with the `key` of a session that has ended here: by logout, by a login that renews it, by expiry
session_ended = Signal()


class SessionStore(DatabaseStore):
    """Sends `session_ended`."""

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        super().delete(session_key)
        if key is not None:
            session_ended.send(sender=SessionStore, key=key)
