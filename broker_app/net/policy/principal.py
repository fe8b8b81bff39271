"""Principals: clients as they are stored with what acts for them later, when they may be gone.

A principal has a user, the token that was used, and the connection; it has no rights by itself. Whenever it
acts, `Access.client_of` finds its rights in the policy of that moment.
"""

from __future__ import annotations

from typing import Final

import msgspec

#: the token of a principal that is not known; no token has this name, so it has no rights
_UNKNOWN_TOKEN: Final = ""


class Principal(msgspec.Struct, frozen=True, omit_defaults=True):
    """The origin of a request: the user, the token by name and id (None: the password or a session), and the
    connection as rules see it."""

    user: str
    token: str | None = None
    token_id: str = ""
    protocol: str = ""
    address: str | None = None
    tls: bool = False
    client: str | None = None

    @property
    def text(self) -> str:
        """The principal as it is stored; `restored` reads it."""
        return msgspec.json.encode(self).decode()


def restored(text: str) -> Principal:
    """The principal that was stored as `text`. Raises ValueError."""
    return msgspec.json.decode(text, type=Principal)


def unknown(user: str) -> Principal:
    """The principal of a record that has the name of the user alone, without any rights: the token that was
    used may have had nearly none."""
    return Principal(user, _UNKNOWN_TOKEN)
