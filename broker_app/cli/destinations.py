"""Destinations as people type them."""


def address(name: str) -> str:
    """A destination as STOMP writes it; a bare name is a queue."""
    return name if name.startswith("/") else f"/queue/{name}"
