"""Nanoseconds per frame of the STOMP codec: `python benchmarks/codec.py [filter]`.

Best of several rounds, so that the other tenants of the machine count little.
"""

import sys
import time
from collections.abc import Callable

from mom_client.stomp import Parser, encode
from mom_client.stomp.frame import MESSAGE, SEND

FRAMES = 2000
ROUNDS = 15


def best(work: Callable[[], object]) -> float:
    """Seconds of the fastest of ROUNDS calls."""
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def parsing(parser: Parser, frames: list[bytes], packet: int = 64 * 1024) -> Callable[[], int]:
    """Parse `frames` as they would come from a socket, `packet` bytes at a time."""
    stream = b"".join(frames)
    packets = [stream[at : at + packet] for at in range(0, len(stream), packet)]

    def work() -> int:
        return sum(len(parser.receive(piece)) for piece in packets)

    return work


def send(number: int, size: int, *, length: bool = True, dedup: bool = False) -> bytes:
    headers = {"destination": "/queue/bench", "receipt": f"r-{number}", "persistent": "true"}
    if dedup:
        headers["dedup-id"] = str(number)
    return encode(SEND, headers, b"x" * size, content_length=length)


def message(number: int) -> bytes:
    headers = {
        "subscription": "sub-1",
        "message-id": f"0193-{number:012d}",
        "ack": f"1-{number}",
        "destination": "/queue/bench",
        "redelivered": "false",
        "timestamp": "1700000000000",
        "attempt": "1",
        "persistent": "true",
    }
    return encode(MESSAGE, headers, b"x" * 100)


def measurements() -> dict[str, Callable[[], object]]:
    numbers = range(FRAMES)
    body = b"x" * 100
    return {
        "SEND 100 B": parsing(Parser(), [send(n, 100) for n in numbers]),
        "SEND 1 KiB": parsing(Parser(), [send(n, 1024) for n in numbers]),
        "SEND 100 B, no content-length": parsing(Parser(), [send(n, 100, length=False) for n in numbers]),
        "SEND 100 B, one frame a packet": parsing(
            Parser(), [send(1000 + n, 100) for n in numbers], len(send(1000, 100))
        ),
        "SEND 100 B, header block never repeats": parsing(
            Parser(), [send(n, 100, dedup=True) for n in numbers]
        ),
        "SEND 100 B, strict path": parsing(Parser(strict=True), [send(n, 100) for n in numbers]),
        "ACK in runs": parsing(Parser(), [b"ACK\nid:1-%d\n\n\0" % n for n in numbers]),
        "ACK with receipt": parsing(Parser(), [b"ACK\nid:1-%d\nreceipt:%d\n\n\0" % (n, n) for n in numbers]),
        "MESSAGE 100 B (client)": parsing(Parser(role="client"), [message(n) for n in numbers]),
        "RECEIPT in runs (client)": parsing(
            Parser(role="client"), [b"RECEIPT\nreceipt-id:r-%d\n\n\0" % n for n in numbers]
        ),
        "encode SEND": lambda: [
            encode(SEND, {"destination": "/queue/bench", "receipt": "r-1"}, body) for _ in range(FRAMES)
        ],
    }


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, work in measurements().items():
        if wanted in name:
            print(f"{best(work) / FRAMES * 1e9:8.0f} ns  {name}")


if __name__ == "__main__":
    main()
