"""stompest: python with_stompest.py HOST PORT USER PASSWORD QUEUE"""

import sys
from typing import Any

from stompest.config import StompConfig
from stompest.protocol import StompSpec
from stompest.sync import Stomp

host, port, user, password, name = sys.argv[1:]
QUEUE = f"/queue/{name}"
ACK = StompSpec.ACK_HEADER
MODE = {ACK: StompSpec.ACK_CLIENT_INDIVIDUAL}


def receive(client: Stomp, command: str = "MESSAGE") -> Any:
    while client.canRead(20):
        frame = client.receiveFrame()
        if frame.command == command:
            return frame
    raise SystemExit(f"no {command} came")


# 1.0, where subscriptions need no id
old = Stomp(StompConfig(f"tcp://{host}:{port}", login=user, passcode=password, version=StompSpec.VERSION_1_0))
old.connect()
for number in range(6):
    old.send(QUEUE, f"m{number}".encode(), receipt=f"s{number}")
    receive(old, "RECEIPT")
old.subscribe(QUEUE, {ACK: "auto"})
assert [receive(old).body for _ in range(6)] == [f"m{number}".encode() for number in range(6)]
old.disconnect()

client = Stomp(
    StompConfig(f"tcp://{host}:{port}", login=user, passcode=password, version=StompSpec.VERSION_1_2)
)
client.connect(host="/", heartBeats=(250, 250))
assert client.session.serverHeartBeat == 250, client.session.serverHeartBeat
client.subscribe(QUEUE, {StompSpec.ID_HEADER: "1", **MODE})
client.send(QUEUE, b"again")
client.nack(receive(client))
again = receive(client)
assert again.headers["redelivered"] == "true"
client.ack(again)
client.begin("no")
client.send(QUEUE, b"aborted", {StompSpec.TRANSACTION_HEADER: "no"})
client.abort("no")
with client.transaction(receipt="tx"):
    client.send(QUEUE, b"committed", {StompSpec.TRANSACTION_HEADER: "0"})
