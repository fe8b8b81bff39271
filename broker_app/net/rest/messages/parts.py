"""Parts of messages between sites, as JSON."""

from __future__ import annotations

import base64
import binascii

import msgspec

from broker_app.net.http.refusals import invalid


class Part(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One part: a text, or any bytes."""

    body: str | None = None
    body_base64: str | None = None

    def content(self) -> bytes:
        """The bytes of the part. Raises Refused."""
        if (self.body is None) == (self.body_base64 is None):
            raise invalid("/parts", "exactly one of body and body_base64 is needed in each part")
        if self.body_base64 is None:
            return (self.body or "").encode()
        try:
            return base64.b64decode(self.body_base64, validate=True)
        except (binascii.Error, ValueError):
            raise invalid("/parts", "body_base64 is not base64") from None


class Parts(msgspec.Struct, forbid_unknown_fields=True):
    """A message or an answer of several parts."""

    parts: list[Part]


def part_of(body: bytes) -> Part:
    """A part as JSON: a text where it is one."""
    try:
        return Part(body.decode())
    except UnicodeDecodeError:
        return Part(body_base64=base64.b64encode(body).decode())
