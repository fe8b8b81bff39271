"""stomper: python with_stomper.py HOST PORT USER PASSWORD QUEUE. It makes and takes apart frames, of 1.1."""

import socket
import sys
from typing import Any

import stomper
from stomper import stompbuffer

host, port, user, password, name = sys.argv[1:]
QUEUE = f"/queue/{name}"
connection = socket.create_connection((host, int(port)), timeout=20)
buffer = stompbuffer.StompBuffer()


def say(text: str) -> None:
    connection.sendall(text.encode())


def hear(command: str) -> Any:
    while True:
        frame = buffer.getOneMessage()
        if frame is None:
            data = connection.recv(65536)
            assert data, "the broker ended the connection"
            buffer.appendData(data.decode())
        elif frame["cmd"] == command:
            return frame


say(stomper.connect(user, password, "/"))
assert hear("CONNECTED")["headers"]["version"] == "1.1"
for number in range(6):
    frame = stomper.Frame()
    frame.unpack(stomper.send(QUEUE, f"m{number}"))
    frame.headers["receipt"] = f"s{number}"
    say(frame.pack())
    hear("RECEIPT")
say(stomper.subscribe(QUEUE, "1", ack="auto"))
assert [hear("MESSAGE")["body"] for _ in range(6)] == [f"m{number}" for number in range(6)]
say(stomper.unsubscribe("1"))

say(stomper.subscribe(QUEUE, "2", ack="client"))
say(stomper.send(QUEUE, "again"))
headers = hear("MESSAGE")["headers"]
say(stomper.nack(headers["message-id"], headers["subscription"]))
headers = hear("MESSAGE")["headers"]
assert headers["redelivered"] == "true"
say(stomper.ack(headers["message-id"], headers["subscription"]))

say(stomper.begin("no") + stomper.send(QUEUE, "aborted", "no") + stomper.abort("no"))
say(stomper.begin("yes") + stomper.send(QUEUE, "committed", "yes") + stomper.commit("yes"))
assert hear("MESSAGE")["body"] == "committed"
say(stomper.disconnect("bye"))
