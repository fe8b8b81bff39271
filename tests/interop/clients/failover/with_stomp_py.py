"""stomp.py: python with_stomp_py.py PORT,PORT USER PASSWORD QUEUE

It goes to the next of its hosts when one does not take a connection, not when one refuses the login: the
application then turns the list.
"""

import itertools
import queue
import sys
import time
from typing import Any

import stomp

ports, user, password, name = sys.argv[1:]
HOSTS = [("127.0.0.1", int(port)) for port in ports.split(",")]
LOST = None


class Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Messages in a queue, and LOST where the connection ended."""

    def __init__(self) -> None:
        self.came: queue.Queue[Any] = queue.Queue()

    def on_message(self, frame: Any) -> None:
        self.came.put(frame)

    def on_error(self, frame: Any) -> None:
        print("refused:", frame.headers["message"], flush=True)

    def on_disconnected(self) -> None:
        self.came.put(LOST)


def connected(first: int) -> tuple[Any, Listener] | None:
    hosts = HOSTS[first:] + HOSTS[:first]
    connection = stomp.Connection12(hosts, reconnect_attempts_max=1, auto_decode=True)
    listener = Listener()
    connection.set_listener("", listener)
    try:
        connection.connect(user, password, wait=True)
    except stomp.exception.ConnectFailedException:
        return None
    return connection, listener


for turn in itertools.count():
    found = connected(turn % len(HOSTS))
    if found is None:
        time.sleep(0.1)
        continue
    connection, listener = found
    connection.subscribe(f"/queue/{name}", id="1", ack="client-individual")
    while (frame := listener.came.get()) is not LOST:
        again = frame.headers.get("redelivered", "false")
        print("received:", frame.body, again, flush=True)
        if again == "true":
            connection.ack(frame.headers["ack"], receipt="acked")
            connection.disconnect(receipt="bye")
            while listener.came.get() is not LOST:
                pass
            sys.exit(0)
