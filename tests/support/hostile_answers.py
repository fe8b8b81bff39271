"""Answers of 1 MiB that no receiver of webhooks gives: what each is large by, and its bytes."""

from __future__ import annotations

_MIB = 1024 * 1024
_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"


def _mib(first: bytes, again: bytes) -> bytes:
    return first + again * (_MIB // len(again))


ANSWERS = {
    "informational heads": _mib(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "header lines": _mib(_OK, b"a:\r\n"),
    "a header line": _mib(_OK + b"a: ", b"b"),
    "allowed origins": _OK + b"WebHook-Allowed-Origin: " + b"," * 60_000 + b"\r\nContent-Length: 0\r\n\r\n",
    "extensions of chunks": _mib(_CHUNKED, b"1;" + b"a" * 60_000 + b"\r\na\r\n"),
    "an extension of a chunk": _mib(_CHUNKED + b"1", b";a"),
    "short chunks": _mib(_CHUNKED, b"1\r\na\r\n"),
    "trailers": _mib(_CHUNKED + b"0\r\n", b"a: b\r\n"),
    "a body": _mib(_OK + b"\r\n", b"a"),
    "a body of nested JSON": _mib(_OK + b"\r\n", b"["),
    "a refusal": _mib(b"HTTP/1.1 500 Oh\r\n\r\n", b"\0<"),
    "no HTTP": _mib(b"", b"a\r\n"),
}
