"""Rows as a client of bulk publishing sends them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from struct import pack
from typing import Any

MEDIA_TYPE = "application/vnd.mom.rows"


def stage_id() -> str:
    return str(uuid.uuid4())


def rows(envelopes: Sequence[dict[str, Any]], content: Sequence[tuple[int, bytes]]) -> bytes:
    """The body of a request; `content` is (envelope, body) of each row."""
    head = json.dumps({"rows": len(content), "envelopes": envelopes}).encode()
    count = f"<{len(content)}I"
    return b"".join(
        (
            pack("<I", len(head)),
            head,
            pack(count, *(index for index, _ in content)),
            pack(count, *(len(body) for _, body in content)),
            *(body for _, body in content),
        )
    )


def to(destination: str, *bodies: bytes, **facts: Any) -> bytes:
    """The body of a request whose rows have one envelope."""
    return rows([{"destination": destination, **facts}], [(0, body) for body in bodies])
