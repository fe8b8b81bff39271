"""A program that has `mom` forked by the process of tests, with its own streams, and ends as that does; see
`mom_in_path`."""

import json
import os
import socket
import sys


def run(address: str, arguments: list[str]) -> int:
    """The exit code of `mom` with these arguments."""
    order = {"arguments": arguments, "cwd": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as tests:
        tests.connect(address)
        socket.send_fds(tests, [json.dumps(order).encode()], [0, 1, 2])
        code = int(tests.recv(16))
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
