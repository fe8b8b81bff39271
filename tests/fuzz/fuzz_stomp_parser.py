"""Fuzzes the STOMP parser: `python tests/fuzz/fuzz_stomp_parser.py [seconds]`, in an empty directory, where
inputs that reach new code are kept.

Laws: nothing but frames and one last Malformed comes out; hot and strict path agree; so does every cut.
"""

import re
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["mom_client"]):
    from mom_client.stomp import AckRun, Frame, Headers, Limits, Malformed, Parser, ReceiptRun
    from mom_client.stomp import frame as wire

LIMITS = Limits(max_header_bytes=1000, max_headers=8, max_header_line=280, max_command=20, max_body=200)
VERSIONS = ("1.2", "1.1", "1.0")
SEEDS = (
    b"\x00\x05CONNECT\naccept-version:1.2\nhost:/\n\n\0",
    b"\x00\x09" + b"SEND\ndestination:/queue/a\nreceipt:1\ncontent-length:3\n\nabc\0" * 3,
    b"\x01\x11SEND\r\na\\c:b\\n\r\n\r\nabc\0\n\n",
    b"\x00\x03" + b"ACK\nid:1\n\n\0" * 3 + b"NACK\nid:2\ntransaction:t\n\n\0",
    b"\x04\x03" + b"RECEIPT\nreceipt-id:1\n\n\0" * 2 + b"MESSAGE\nmessage-id:1\n\nx\0",
    b"\x00\x02GET / HTTP/1.1\r\n\r\n",
)


def read(data: bytes, version: str, *, server: bool, strict: bool, piece: int) -> tuple[list[object], bool]:
    """The frames of `data` parsed in pieces of `piece` bytes, and whether a frame is unfinished."""
    parser = Parser(limits=LIMITS, role="server" if server else "client", strict=strict)
    parser.version = version
    items: list[object] = []
    for start in range(0, len(data), piece):
        for item in parser.receive(data[start : start + piece]):
            assert not (items and isinstance(items[-1], Malformed)), "something came after Malformed"
            if isinstance(item, AckRun):
                items += taken_apart(item)
            elif isinstance(item, Malformed):
                # How much of what is too large was seen depends on the piece it came in.
                items.append(Malformed(item.code, re.sub(r"at least \d+", "at least …", item.detail)))
            else:
                items.append(item)
    return items, parser.has_partial


def taken_apart(run: AckRun) -> list[Frame]:
    """The frames that a run stands for."""
    name, command = ("receipt-id", wire.RECEIPT) if isinstance(run, ReceiptRun) else ("id", wire.ACK)
    return [Frame(command, Headers({name: id.decode()})) for id in run.ids]


def check(data: bytes) -> None:
    if len(data) < 3:
        return
    choice, piece, stream = data[0], data[1], data[2:]
    version, server = VERSIONS[choice % 3], choice < 128
    expected = read(stream, version, server=server, strict=True, piece=len(stream))
    for strict, size in ((False, len(stream)), (False, piece + 1), (True, piece + 1), (False, 1)):
        assert read(stream, version, server=server, strict=strict, piece=size) == expected


def main() -> None:
    seconds = sys.argv[1] if len(sys.argv) > 1 else "60"
    corpus = Path("corpus")
    corpus.mkdir()
    for number, seed in enumerate(SEEDS):
        check(seed)
        (corpus / str(number)).write_bytes(seed)
    limits = f"-max_total_time={seconds}", "-max_len=800", "-timeout=10", "-verbosity=0"
    atheris.Setup([sys.argv[0], *limits, str(corpus)], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
