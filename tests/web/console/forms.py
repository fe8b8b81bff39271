"""Submits forms like a browser."""

from typing import Any

from django.test import Client


def sent(client: Client, address: str, operation: str = "save", **fields: Any) -> str:
    """Submit a form, follow redirects, and return the page."""
    reply = client.post(address, {"operation": operation, **fields}, follow=True)
    assert reply.status_code == 200
    return reply.content.decode()


def a_rule(**values: Any) -> dict[str, Any]:
    return {"effect": "allow", "conditions": "", "users": "", "groups": "", "position": "10", **values}
