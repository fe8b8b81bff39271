"""Protocol errors of the other side, as values: the session decides how to answer them."""

from dataclasses import dataclass
from typing import Final

#: codes of an ERROR that refuses one frame as it was sent: it would be refused again
FRAME_FAULTS: Final = frozenset(
    (
        "malformed-frame",
        "bad-escape",
        "unknown-command",
        "bad-content-length",
        "too-large",
        "too-many-headers",
        "not-utf8",
        "missing-nul",
    )
)


@dataclass(frozen=True, slots=True)
class Malformed:
    """The peer broke the protocol; nothing that follows on this connection can be trusted.

    code     stable name of the fault: one of FRAME_FAULTS, http-on-stomp-port, tls-on-stomp-port
    detail   a sentence for the person who will read it, with the limit and the size seen where it is one
    receipt  that of the frame, if its headers could be read
    """

    code: str
    detail: str
    receipt: bytes | None = None


class Fault(Exception):
    """Carries a Malformed out of the depth of the parser; never leaves this package."""

    def __init__(self, code: str, detail: str, receipt: bytes | None = None) -> None:
        super().__init__(detail)
        self.malformed = Malformed(code, detail, receipt)
