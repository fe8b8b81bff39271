"""Writing: what is said elsewhere, as a file would say it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from broker_app.zero.keys import CONNECTIONS

#: stands where a password belongs
PASSWORD: Final = "…"


def connection(name: str, said: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The statement for one connection: what differs from `defaults` is said, and its password is left to be
    filled in."""
    value = {field: one for field, one in said.items() if field != "user" and defaults.get(field) != one}
    if said.get("user"):
        value["bridgeCredentials"] = {"user": said["user"], "password": PASSWORD}
    lines = [
        f"    {json.dumps(field)}: {json.dumps(one, ensure_ascii=False)}" for field, one in value.items()
    ]
    return f"{CONNECTIONS}/{name} = {{\n" + ",\n".join(lines) + "\n}\n"
