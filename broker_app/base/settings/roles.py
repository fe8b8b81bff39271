"""Roles of brokers: the settings that each requires, and those that it has by default."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from mom_client.callback_broker import NAME as CALLBACK_NAME
from mom_client.callback_broker import state_directory

MAIN, MIRROR, CALLBACK = 1, -1, -2
#: the names that brokers may have
BROKER_NAME: Final = r"[\w.-]{1,64}"
#: deliveries of a callback message: the origin counts those of its original
_NO_LIMIT: Final = 1_000_000_000


def defaults(role: int) -> dict[str, object]:
    """The settings whose default is another one than that of all brokers."""
    if role != CALLBACK:
        return {}
    return {"data": state_directory(), "port": 0, "stomp_port": 0, "max_attempts": _NO_LIMIT}


def faults(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The settings of name, role and journal that are invalid, each with the reason."""
    role, has_journal = values.get("role", MAIN), values.get("journal") is not None
    if role == CALLBACK:
        yield from _faults_of_callback_broker(values)
    elif values.get("name") == CALLBACK_NAME:
        yield (
            "name",
            f"{CALLBACK_NAME} is the name of callback brokers, whose role is {CALLBACK}: write -r {CALLBACK}",
        )
    fault = _fault_of_role(role, has_journal=has_journal)
    if fault:
        yield "role", fault
    if values.get("private_journal") is not None:
        yield from _faults_of_private_journal(values)


def _fault_of_role(role: int, *, has_journal: bool) -> str:
    """The error of a role; empty if it is valid."""
    right = f"write {MAIN} for a main broker, {MIRROR} for its mirror, {CALLBACK} for a callback broker"
    if role in (MAIN, CALLBACK) or (role == MIRROR and has_journal):
        return ""
    if role == MIRROR:
        return (
            f"{MIRROR} is a mirror, which shares the journal of its main: set --journal (MOM_JOURNAL) to the "
            "address that the main has, postgresql://…, redis://… or file:/DIRECTORY"
        )
    if role < 0:
        return f"{role} is reserved, as all negative roles except {MIRROR} and {CALLBACK} are; {right}"
    if role == 0:
        return f"0 is not a role: a broker is a main or a mirror; {right}"
    return f"{role} is not a role: a second broker of the same name is a mirror of the first; {right}"


def _faults_of_callback_broker(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if values.get("name") != CALLBACK_NAME:
        yield (
            "name",
            f"a callback broker (role {CALLBACK}) has the name {CALLBACK_NAME}: write -s {CALLBACK_NAME}",
        )
    host = values.get("host")
    if host is not None and not is_loopback(host):
        yield (
            "host",
            f"a callback broker serves the programs of its machine, and not of {host}: leave it out",
        )
    if values.get("journal") is not None:
        yield "journal", "a callback broker keeps nothing, and shares no journal: leave it out"


def _faults_of_private_journal(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if values.get("journal") is None:
        yield (
            "private_journal",
            "it is a copy of a shared journal: set --journal (MOM_JOURNAL) to the address of that, too",
        )
        return
    address = urlsplit(str(values["journal"]))
    if address.scheme == "file" and Path(address.path).resolve() == values["private_journal"].resolve():
        yield "private_journal", "it is the directory of the shared journal itself; name another one"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
