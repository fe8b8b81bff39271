"""Protocol errors of the other side, as values: the session decides how to answer them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Malformed:
    """The peer broke the protocol; nothing that follows on this connection can be trusted.

    code    stable name of the fault: malformed-frame, bad-escape, unknown-command, bad-content-length,
            too-large, too-many-headers, not-utf8, missing-nul, http-on-stomp-port, tls-on-stomp-port
    detail  a sentence for the person who will read it, with the limit and the size seen where it is one
    """

    code: str
    detail: str


class Fault(Exception):
    """Carries a Malformed out of the depth of the parser; never leaves this package."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.malformed = Malformed(code, detail)
