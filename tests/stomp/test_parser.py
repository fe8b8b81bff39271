"""The result of parsing each kind of bytes."""

import time
import tracemalloc

import pytest

from mom_client.stomp import AckRun, Frame, Headers, Limits, Malformed, Parser, ReceiptRun, encode
from mom_client.stomp import frame as wire

LIMITS = Limits(max_header_bytes=200, max_headers=3, max_header_line=50, max_command=20, max_body=100)


def parse(data: bytes, version: str = "1.2", limits: Limits = LIMITS) -> list[Frame | AckRun | Malformed]:
    parser = Parser(limits=limits)
    parser.version = version
    return parser.receive(data)


def one(data: bytes, version: str = "1.2") -> Frame:
    (frame,) = parse(data, version)
    assert isinstance(frame, Frame), frame
    return frame


MALFORMED = {
    "an unknown command": (b"SHOUT\n\n\0", "unknown-command", "the command 'SHOUT' is unknown"),
    "a command in small letters": (b"send\n\n\0", "unknown-command", "'send'"),
    "a broker's command": (b"MESSAGE\n\n\0", "unknown-command", "'MESSAGE'"),
    "an endless command": (b"S" * 23, "too-large", "longer than the 20 bytes"),
    "HTTP": (b"GET /console HTTP/1.1\r\n", "http-on-stomp-port", "this is an HTTP request"),
    "an HTTP proxy": (
        b"CONNECT example.org:443 HTTP/1.1\r\n",
        "http-on-stomp-port",
        "this port speaks STOMP",
    ),
    "TLS": (b"\x16\x03\x01\x02\x00\x01", "tls-on-stomp-port", "this looks like TLS"),
    "NUL before any command": (b"\0", "malformed-frame", "NUL byte stands in the command line"),
    "NUL within the command": (b"SE\0ND", "malformed-frame", "NUL byte stands in the command line"),
    "no empty line after the headers": (
        b"SEND\ndestination:x\n\0",
        "malformed-frame",
        "NUL byte stands in the headers",
    ),
    "a header without a colon": (
        b"SEND\nfoo\n\n\0",
        "malformed-frame",
        "'foo' is not of the form name:value",
    ),
    "a header without a name": (
        b"SEND\n:foo\n\n\0",
        "malformed-frame",
        "':foo' is not of the form name:value",
    ),
    "a carriage return within a header": (
        b"SEND\na:b\rc\n\n\0",
        "malformed-frame",
        "has a carriage return inside",
    ),
    "an illegal escape": (
        b"SEND\na:b\\t\n\n\0",
        "bad-escape",
        r"has the escape \t; STOMP 1.2 knows \n \c \\ \r only",
    ),
    "half an escape": (b"SEND\na:b\\\n\n\0", "bad-escape", "has the escape \\;"),
    "an illegal escape in a receipt": (b"SEND\nreceipt:\\x\n\n\0", "bad-escape", r"the escape \x"),
    "a header that is not UTF-8": (b"SEND\nok:1\nx:\xff\n\n\0", "not-utf8", r"'x:\xff' is not valid UTF-8"),
    "a length that is no number": (
        b"SEND\ncontent-length:1 2\n\n",
        "bad-content-length",
        "'1 2' is not a number of bytes",
    ),
    "a negative length": (b"SEND\ncontent-length:-1\n\n", "bad-content-length", "'-1' is not"),
    "a length in foreign digits": ("SEND\ncontent-length:٣\n\n".encode(), "bad-content-length", "'٣' is not"),
    "an empty length": (b"SEND\ncontent-length:\n\n", "bad-content-length", "'' is not"),
    "an endless length": (b"SEND\ncontent-length:%b\n\n" % (b"9" * 30), "too-large", "has 30 digits"),
    "a length over the limit": (
        b"SEND\ncontent-length:101\n\n",
        "too-large",
        "has 101 bytes, allowed are 100",
    ),
    "a length that is too short": (
        b"SEND\ncontent-length:1\n\nab\0",
        "missing-nul",
        "missing after the 1 bytes",
    ),
    "a body over the limit": (b"SEND\n\n" + b"x" * 101, "too-large", "at least 101 bytes, allowed are 100"),
    "headers over the limit": (b"SEND\n" + b"a:" + b"x" * 203, "too-large", "longer than the 200 bytes"),
    "a line over the limit": (b"SEND\na:%b\n\n\0" % (b"x" * 49), "too-large", "has 51 bytes, allowed are 50"),
    "too many headers": (
        b"SEND\na:1\nb:2\nc:3\nd:4\n\n\0",
        "too-many-headers",
        "has 4 headers, allowed are 3",
    ),
    "a body where none belongs": (
        b"ACK\nid:1\n\nbody\0",
        "malformed-frame",
        "ACK frames must not have a body",
    ),
    "a long body where none belongs": (b"CONNECT\n\n" + b"x" * 50, "malformed-frame", "must not have a body"),
    "a length where no body belongs": (
        b"CONNECT\ncontent-length:9\n\n",
        "malformed-frame",
        "must not have a body",
    ),
}


@pytest.mark.parametrize(("data", "code", "detail"), MALFORMED.values(), ids=MALFORMED)
def test_malformed(data: bytes, code: str, detail: str) -> None:
    parser = Parser(limits=LIMITS)
    before, malformed = parser.receive(b"BEGIN\ntransaction:1\n\n\0" + data)
    assert isinstance(before, Frame)
    assert isinstance(malformed, Malformed)
    assert malformed.code == code
    assert detail in malformed.detail
    assert (parser.receive(b"BEGIN\ntransaction:1\n\n\0"), parser.has_partial, parser.buffered) == (
        [],
        False,
        0,
    )


def test_a_frame() -> None:
    frame = one(b"SEND\ndestination:/queue/a\nreceipt:r-1\nx\\cy:\\\\\\n\\r\xc3\xa4\n\nbody\0")
    assert (frame.command, frame.receipt, frame.body) == (b"SEND", b"r-1", b"body")
    assert frame.headers == {"destination": "/queue/a", "x:y": "\\\n\rä"}
    assert frame.command is wire.SEND


@pytest.mark.parametrize(("version", "value"), [("1.0", "a\\c\\r"), ("1.1", None), ("1.2", "a:\r")])
def test_unescaping_is_of_the_version(version: str, value: str | None) -> None:
    (frame,) = parse(b"SEND\nx:a\\c\\r\n\n\0", version)
    if isinstance(frame, Frame):
        assert frame.headers == {"x": value}
    else:
        assert isinstance(frame, Malformed)
        assert (frame.code, value) == ("bad-escape", None)


def test_connect_is_never_unescaped() -> None:
    assert one(b"CONNECT\npasscode:a\\nb\\x\n\n\0").headers == {"passcode": "a\\nb\\x"}
    assert one(b"STOMP\npasscode:a\\nb\\x\n\n\0").headers == {"passcode": "a\\nb\\x"}


@pytest.mark.parametrize(("version", "value"), [("1.0", "a b"), ("1.1", " a b\t"), ("1.2", " a b\t")])
def test_blanks_around_a_value_are_none_of_it_in_1_0(version: str, value: str) -> None:
    frames = parse(b"SEND\nx: a b\t\nreceipt: r\n\n\0" * 3, version)
    assert [(frame.headers, frame.receipt) for frame in frames if isinstance(frame, Frame)] == [
        ({"x": value}, b" r")
    ] * 3


def test_a_connect_of_1_0_has_no_accept_version() -> None:
    assert one(b"CONNECT\nlogin: admin\n\n\0").headers == {"login": "admin"}
    newer = {"login": " admin", "accept-version": "1.2"}
    assert one(b"CONNECT\nlogin: admin\naccept-version:1.2\n\n\0").headers == newer


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_a_content_length_may_have_blanks_around_it(version: str) -> None:
    (frame,) = parse(b"SEND\ncontent-length: 2 \n\n\0x\0", version)
    assert isinstance(frame, Frame)
    assert frame.body == b"\0x"


def test_the_first_occurrence_wins() -> None:
    lines = b"a:1\nreceipt:2\na:3\nreceipt:4\ncontent-length:1\ncontent-length:9\n"
    (frame,) = parse(b"SEND\n" + lines + b"\nx\0", limits=Limits())
    assert isinstance(frame, Frame)
    assert (frame.headers, frame.receipt, frame.body) == ({"a": "1"}, b"2", b"x")


def test_values_keep_colons_and_spaces() -> None:
    assert one(b"SEND\na: b:c \n\n\0").headers == {"a": " b:c "}


def test_crlf() -> None:
    frame = one(b"SEND\r\na:b\r\nreceipt:1\r\n\r\n\r\nbody\r\n\0")
    assert (frame.headers, frame.receipt, frame.body) == ({"a": "b"}, b"1", b"\r\nbody\r\n")
    assert one(b"SEND\r\na:b\r\n\r\n\0", "1.1").headers == {"a": "b"}


def test_a_carriage_return_is_data_in_1_1() -> None:
    assert one(b"SEND\na:b\r\n\n\0", "1.1").headers == {"a": "b\r"}


def test_nul_in_the_body_needs_content_length() -> None:
    assert one(b"SEND\ncontent-length:3\n\na\0b\0").body == b"a\0b"
    assert one(b"SEND\ncontent-length:0\n\n\0").body == b""


def test_eols_between_frames_are_heart_beats() -> None:
    frames = parse(b"\n\r\n\nSEND\n\na\0\n\n\nSEND\n\nb\0\r\n")
    assert [frame.body for frame in frames if isinstance(frame, Frame)] == [b"a", b"b"]


def test_old_clients_end_frames_with_an_eol() -> None:
    assert one(b"BEGIN\ntransaction:1\n\n\n\0").body == b""


def test_acks_come_in_runs() -> None:
    plain = b"ACK\nid:1\n\n\0ACK\nid:b-2\n\n\0"
    items = parse(plain + b"ACK\nid:3\nreceipt:x\n\n\0ACK\nid:a\\cb\n\n\0ACK\nid:5\n\n\0")
    assert items == [
        AckRun([b"1", b"b-2"]),
        Frame(wire.ACK, Headers({"id": "3"}), b"x"),
        Frame(wire.ACK, Headers({"id": "a:b"})),
        AckRun([b"5"]),
    ]


def test_receipts_come_in_runs() -> None:
    stream = b"RECEIPT\nreceipt-id:1\n\n\0RECEIPT\nreceipt-id:2\n\n\0\nERROR\n\nx\0"
    items = Parser(role="client").receive(stream)
    assert items == [ReceiptRun([b"1", b"2"]), Frame(wire.ERROR, Headers(), None, b"x")]


def test_equal_header_blocks_share_their_headers() -> None:
    parser = Parser()
    stream = b"".join(encode(wire.SEND, {"a": "b", "receipt": f"{n}"}, b"x" * n) for n in range(5))
    frames = parser.receive(stream)
    assert all(isinstance(frame, Frame) for frame in frames)
    assert len({id(frame.headers) for frame in frames if isinstance(frame, Frame)}) == 1
    parser.version = "1.1"
    (frame,) = parser.receive(encode(wire.SEND, {"a": "b", "receipt": "9"}, b""))
    assert isinstance(frame, Frame)
    assert isinstance(frames[0], Frame)
    assert frame.headers is not frames[0].headers


@pytest.mark.parametrize("name", ["correlation-id", "channel-call"])
def test_blocks_that_differ_in_an_id_are_read_once(name: str) -> None:
    parser = Parser()
    block = "SEND\ndestination:/channel/b2\n%s:%s\nreply-to:/temp-queue/a\n\n\0"
    frames = [parser.receive((block % (name, id)).encode())[0] for id in ("a", "b:c", "", "d\\\\e")]
    found = [frame.headers for frame in frames if isinstance(frame, Frame)]
    assert [headers[name] for headers in found] == ["a", "b:c", "", "d\\e"]
    assert [list(headers) for headers in found] == [["destination", name, "reply-to"]] * 4
    first, second, empty, escaped = found
    assert first.model is not None
    assert first.model is second.model
    assert (empty.model, escaped.model) == (None, None)
    parser.forget()
    (again,) = parser.receive((block % (name, "f")).encode())
    assert isinstance(again, Frame)
    assert again.headers.model is not first.model


def test_the_cache_is_bounded() -> None:
    parser = Parser()
    for number in range(1000):
        parser.receive(encode(wire.SEND, {"unique": f"{number}" * 20}, b""))
    assert len(parser._cache) <= 128
    assert sum(map(len, parser._cache)) == parser._cached_bytes <= 32 * 1024


def test_limits_may_be_raised_after_login() -> None:
    parser = Parser(limits=LIMITS)
    parser.receive(encode(wire.CONNECT, {"host": "/"}, content_length=False))
    parser.limits = Limits()
    (frame,) = parser.receive(encode(wire.SEND, {"a": "b"}, b"x" * 1000))
    assert isinstance(frame, Frame)


def test_facts_for_time_outs() -> None:
    parser = Parser()
    steps = [(b"\n", False, 0), (b"SE", True, 2), (b"ND\n\nabc", True, 3), (b"\0", False, 0)]
    for data, partial, buffered in steps:
        parser.receive(data)
        assert (parser.has_partial, parser.buffered) == (partial, buffered)


@pytest.mark.parametrize("head", [b"SEND\ncontent-length:%d\n\n" % (16 << 20), b"SEND\n\n"])
def test_a_large_body_in_pieces_takes_linear_time(head: bytes) -> None:
    parser = Parser()
    parser.receive(head)
    piece = b"x" * (64 * 1024)
    began = time.process_time()
    for _ in range(256):
        assert parser.receive(piece) == []
    (frame,) = parser.receive(b"\0")
    assert isinstance(frame, Frame)
    assert len(frame.body) == 16 << 20
    assert time.process_time() - began < 1.0


@pytest.mark.slow
def test_many_crlf_frames_in_one_piece_take_linear_time() -> None:
    data = b"SEND\r\na:b\r\n\r\nx\0" * 20_000
    began = time.process_time()
    assert len(Parser().receive(data)) == 20_000
    assert time.process_time() - began < 5.0


def test_receipts_that_end_with_a_line_feed_come_in_runs_too() -> None:
    frame = b"RECEIPT\nreceipt-id:%d\n\n\0\n"
    parser = Parser(role="client")
    assert parser.receive(frame % 1 + frame % 2) == [ReceiptRun([b"1", b"2"])]
    assert parser.receive(frame % 3 + (frame % 4)[:-1]) == [ReceiptRun([b"3"]), ReceiptRun([b"4"])]
    assert parser.receive(b"\n" + (frame % 5)[:-1] + (frame % 6)[:-1]) == [ReceiptRun([b"5", b"6"])]
    assert not parser.has_partial


def one_by_one(items: list[Frame | AckRun | Malformed]) -> list[Frame | Malformed]:
    """The items, with runs as the frames that they stand for."""
    found: list[Frame | Malformed] = []
    for item in items:
        if isinstance(item, AckRun):
            found += [Frame(wire.ACK, Headers({"id": id.decode()}), None, b"") for id in item.ids]
        else:
            found.append(item)
    return found


@pytest.mark.parametrize("strict", [False, True])
def test_frames_are_the_same_however_much_is_read_at_once(strict: bool) -> None:
    sends = b"".join(encode(wire.SEND, {"a": "b", "receipt": f"{n}"}, b"x" * n) for n in range(20))
    stream = b"\n\n" + sends + b"ACK\nid:1\n\n\0" * 50 + b"BEGIN\r\ntransaction:t\r\n\r\n\0\n" * 5 + sends
    whole = one_by_one(Parser(strict=strict).receive(stream))
    for most in (1, 100, 3_000):
        parser = Parser(strict=strict)
        parser.put(stream[:1_000])
        found = []
        while parser.has_unread:
            found += parser.read(most)
        parser.put(stream[1_000:2_000])
        found += parser.read(most)
        parser.put(stream[2_000:])
        while parser.has_unread:
            found += parser.read(most)
        assert one_by_one(found) == whole


def test_a_read_brings_no_more_than_was_asked_for() -> None:
    parser = Parser()
    parser.put(b"".join(b"BEGIN\ntransaction:%d\n\n\0" % number for number in range(1_000)))
    assert len(parser.read(1)) == 1
    assert len(parser.read(10_000)) < 50, "frames whose head is parsed count for more"
    assert len(parser.receive(b"")) > 900
    parser.put(b"ACK\nid:1\n\n\0" * 1_000)
    assert sum(len(frame.ids) for frame in parser.read(1_100) if isinstance(frame, AckRun)) < 200


def test_the_pieces_of_a_large_body_are_not_copied_together_at_its_end() -> None:
    piece, count = b"x" * 65_536, 256
    parser = Parser(limits=Limits())
    parser.receive(b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n" % (count * len(piece)))
    tracemalloc.start()
    for _ in range(count):
        parser.receive(piece)
    (frame,) = parser.receive(b"\0")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(frame, Frame) and frame.body == piece * count
    assert peak < 1.5 * count * len(piece)
