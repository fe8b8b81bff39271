"""An answer while it is read: it is parsed piece by piece, within bounds for the whole exchange."""

from __future__ import annotations

from typing import Final

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from broker_app.base import causes
from broker_app.peers.http_client import exchange
from broker_app.peers.http_client.exchange import HttpAnswer, Unanswered

#: bounds of one exchange: informational answers (1xx) before the answer itself, bytes and lines of all heads
#: and trailers, bytes of the body that are kept, and bytes in all; what comes after these is not read
MAX_INFORMATIONAL: Final = 10
MAX_HEAD: Final = 64 * 1024
MAX_HEADER_LINES: Final = 256
MAX_BODY: Final = 64 * 1024
MAX_BYTES: Final = 256 * 1024

_FINAL: Final = 200
#: headers that say where a body ends; without one it is at the end of the connection
_FRAMING: Final = ("content-length", "transfer-encoding")
#: answers without a body, whatever their headers say
_BODILESS: Final = (204, 304)


class AnswerReader:
    """`take` pieces until it is `done`, or `end` it where the connection ends; then it has the `answer`."""

    def __init__(self) -> None:
        #: nothing more of the answer is to be read
        self.done = False
        #: another request may be sent over the connection
        self.keeps_connection = False
        self._parser = HttpResponseParser(self)
        # As other clients: many small servers end their lines with LF alone.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._informational = self._lines = self._head_bytes = self._bytes = 0
        self._in_body = False
        self._refusal = ""

    @property
    def has_begun(self) -> bool:
        """True if any byte of an answer has come."""
        return self._bytes > 0

    def take(self, piece: bytes) -> None:
        """Parse what came. Raises Unanswered with PROTOCOL."""
        self._bytes += len(piece)
        if not self._in_body:
            self._head_bytes += len(piece)
        try:
            self._parser.feed_data(piece)
        except HttpParserUpgrade:
            raise _invalid("it answers 101, a change of the protocol that it was not asked for") from None
        except HttpParserError as error:
            if self.done:  # more than the answer has come: what belongs to no request
                self.keeps_connection = False
                return
            raise _invalid(self._refusal or f"its answer is no valid HTTP: {error}") from None
        if self._refusal:
            raise _invalid(self._refusal)
        if not self._in_body and not self.done and self._head_bytes > MAX_HEAD:
            raise _invalid(f"the head of its answer is longer than {MAX_HEAD // 1024} KiB")
        if self._in_body and (len(self._body) >= MAX_BODY or self._bytes >= MAX_BYTES):
            self.done = True

    def end(self) -> None:
        """The connection has ended. Raises Unanswered unless the answer ends with it."""
        if not self._in_body or any(name in self._headers for name in _FRAMING):
            raise Unanswered(exchange.RESET, causes.UNANSWERED.format(why="the answer is not complete"))
        self.done = True

    @property
    def answer(self) -> HttpAnswer:
        """The answer, once it is done."""
        return HttpAnswer(self._status, self._headers, bytes(self._body[:MAX_BODY]))

    # ------------------------------------------------------------------ called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.done:
            return
        self._lines += 1
        if self._lines > MAX_HEADER_LINES:
            self._refuse(f"its answer has more than {MAX_HEADER_LINES} header lines")
        if not self._in_body:
            self._headers[name.decode(errors="replace").lower()] = value.decode(errors="replace")

    def on_headers_complete(self) -> None:
        if self.done:
            return
        status = self._parser.get_status_code()
        if status >= _FINAL:
            self._status, self._in_body = status, True
            return
        self._headers.clear()
        self._informational += 1
        if self._informational > MAX_INFORMATIONAL:
            self._refuse(
                f"it sent more than {MAX_INFORMATIONAL} informational answers (1xx) and not the answer itself"
            )

    def on_body(self, part: bytes) -> None:
        if not self.done:
            self._body += part

    def on_message_complete(self) -> None:
        if self._in_body:
            keeps = not self.done and self._parser.should_keep_alive()
            self.keeps_connection = keeps and not self._announces_wrong_body
            self.done = True

    @property
    def _announces_wrong_body(self) -> bool:
        """True if a body is announced where none may be: it may still come, and would be taken for the next
        answer."""
        length = self._headers.get("content-length", "0")
        return self._status in _BODILESS and (length != "0" or "transfer-encoding" in self._headers)

    def _refuse(self, sentence: str) -> None:
        self._refusal = sentence
        raise ValueError(sentence)  # the parser stops


def _invalid(sentence: str) -> Unanswered:
    return Unanswered(exchange.PROTOCOL, sentence[:300])
