"""stompest, by its failover URI: python with_stompest.py PORT,PORT USER PASSWORD QUEUE

It goes to the next of its brokers when one does not take a connection, not when one refuses the login: the
application then turns the list.
"""

import itertools
import sys
import time

from stompest.config import StompConfig
from stompest.error import StompError
from stompest.protocol import StompSpec
from stompest.sync import Stomp

ports, user, password, name = sys.argv[1:]
BROKERS = [f"tcp://127.0.0.1:{port}" for port in ports.split(",")]
HEADERS = {StompSpec.ID_HEADER: "1", StompSpec.ACK_HEADER: StompSpec.ACK_CLIENT_INDIVIDUAL}


def consume(brokers: list[str]) -> None:
    """Receive until a message has come again. Raises StompError when the connection ends."""
    uri = f"failover:({','.join(brokers)})?randomize=false,maxReconnectDelay=100,maxReconnectAttempts=-1"
    client = Stomp(StompConfig(uri, login=user, passcode=password, version=StompSpec.VERSION_1_2))
    try:
        client.connect(host="/", connectedTimeout=5)
    except StompError as error:
        print("refused:", error, flush=True)
        raise
    client.subscribe(f"/queue/{name}", HEADERS)
    again = "false"
    while again != "true":
        frame = client.receiveFrame()
        again = frame.headers.get("redelivered", "false")
        print("received:", frame.body.decode(), again, flush=True)
    client.ack(frame, receipt="acked")
    client.receiveFrame()
    client.disconnect()


for turn in itertools.count():
    first = turn % len(BROKERS)
    try:
        consume(BROKERS[first:] + BROKERS[:first])
    except StompError:
        time.sleep(0.1)
    else:
        break
