"""Destinations as people type them."""


def address(name: str) -> str:
    """A destination as STOMP writes it; a bare name is a queue, `$mom.…` what the broker itself tells."""
    if name.startswith("$mom."):
        return f"/topic/{name}"
    return name if name.startswith("/") else f"/queue/{name}"
