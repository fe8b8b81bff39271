"""Clients in records: the user and the client id of a producer or consumer, written as one address.

The address stands in the table of destinations of a batch, and records refer to it by index."""

from __future__ import annotations

from typing import Final, NamedTuple

_PREFIX: Final = "/client/"
#: characters of a user and of a client id: the table has room for 64 KiB
MAX_CHARACTERS: Final = 255


class ClientNames(NamedTuple):
    """A user and a client id; empty where there is none."""

    user: str
    client_id: str


def address_of(user: str, client_id: str = "") -> str:
    """The address of a client; empty for one without a name. The name of a user has no "/"."""
    if not (user or client_id):
        return ""
    named = f"{_PREFIX}{user[:MAX_CHARACTERS]}/{client_id[:MAX_CHARACTERS]}"
    return named.encode(errors="replace").decode()  # halves of surrogates could not be recorded


def of_address(address: str) -> ClientNames:
    """The client of an address."""
    user, _, client_id = address.removeprefix(_PREFIX).partition("/")
    return ClientNames(user, client_id)


def is_client(address: str) -> bool:
    """Return whether an address is that of a client."""
    return address.startswith(_PREFIX)
