"""Configured resources as statements of a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from broker_app.zero.keys import CONNECTIONS

#: placeholder for a password
PASSWORD: Final = "…"


def connection(name: str, spec: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The statement for one connection: the fields that differ from `defaults`, and a placeholder for its
    password."""
    value = {field: one for field, one in spec.items() if field != "user" and defaults.get(field) != one}
    if spec.get("user"):
        value["bridgeCredentials"] = {"user": spec["user"], "password": PASSWORD}
    lines = [
        f"    {json.dumps(field)}: {json.dumps(one, ensure_ascii=False)}" for field, one in value.items()
    ]
    return f"{CONNECTIONS}/{name} = {{\n" + ",\n".join(lines) + "\n}\n"
