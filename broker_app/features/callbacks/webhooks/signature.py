"""Signatures of Standard Webhooks: HMAC-SHA256 over id, time and body, with a secret `whsec_…`."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Iterable
from typing import Final

PREFIX: Final = "whsec_"
#: bytes of a key: (least, most)
KEY_BYTES: Final = (24, 64)
_NEW_KEY_BYTES: Final = 32


def new_secret() -> str:
    """A new random secret."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_NEW_KEY_BYTES)).decode("ascii")


def key_of(secret: str) -> bytes:
    """The key in a secret. Raises ValueError with a sentence for a malformed one."""
    least, most = KEY_BYTES
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not (secret.startswith(PREFIX) and least <= len(key) <= most):
        raise ValueError(f"must be {PREFIX} and {least} to {most} bytes in base64; left out, one is made")
    return key


def signature_headers(
    message_id: str, now_s: float, body: bytes, secrets: Iterable[str]
) -> list[tuple[str, str]]:
    """The three headers of a push; its signature is made with each of the secrets."""
    timestamp = str(int(now_s))
    signatures = (_signature(secret, f"{message_id}.{timestamp}.".encode(), body) for secret in secrets)
    return [
        ("webhook-id", message_id),
        ("webhook-timestamp", timestamp),
        ("webhook-signature", " ".join(f"v1,{signature}" for signature in signatures)),
    ]


def _signature(secret: str, head: bytes, body: bytes) -> str:
    """The signature of head and body, which may be large and is not copied."""
    made = hmac.new(key_of(secret), head, "sha256")
    made.update(body)
    return base64.b64encode(made.digest()).decode("ascii")
