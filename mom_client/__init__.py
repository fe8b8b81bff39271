"""MOM's client library: send, receive and ask over STOMP, on TCP, TLS or WebSocket.

    import mom_client

    async with mom_client.connect(login="admin", passcode="…") as mom:
        await mom.send("/queue/orders", "hello")
        async with mom.subscribe("/queue/orders") as messages:
            async for message in messages:
                print(message.text)
                await message.ack()

A message for a queue of another broker, that may be away, waits in the broker nearest:

    async with mom_client.connect(store_and_forward=True, broker="dc-west") as mom:
        await mom.send("/queue/orders", "hello")

Several brokers, of which one serves, are a failover URI (docs/clients.md has its options):

    mom_client.connect("failover:(stomp://a:61613,stomp://b:61613)?timeout=3000")

`mom_client.blocking` has the same without asyncio. Needs nothing but `websockets`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .callbacks import Service
    from .channels import MASTER, ChannelError, environment
    from .client import Client, connect
    from .errors import ClientError, ConnectionLost, Overrun, Refused, Timeout, TransactionInDoubt
    from .events import ConnectionEvent, EventStream
    from .message import Message
    from .subscription import Subscription
    from .transaction import Transaction

__all__ = [
    "MASTER",
    "ChannelError",
    "Client",
    "ClientError",
    "ConnectionEvent",
    "ConnectionLost",
    "EventStream",
    "Message",
    "Overrun",
    "Refused",
    "Service",
    "Subscription",
    "Timeout",
    "Transaction",
    "TransactionInDoubt",
    "connect",
    "environment",
]

_MODULES = {
    "MASTER": "channels",
    "ChannelError": "channels",
    "Client": "client",
    "ClientError": "errors",
    "ConnectionEvent": "events",
    "ConnectionLost": "errors",
    "EventStream": "events",
    "Message": "message",
    "Overrun": "errors",
    "Refused": "errors",
    "Service": "callbacks",
    "Subscription": "subscription",
    "Timeout": "errors",
    "Transaction": "transaction",
    "TransactionInDoubt": "errors",
    "connect": "client",
    "environment": "channels",
}


if not TYPE_CHECKING:  # type checkers know the names above, and report others

    def __getattr__(name: str) -> Any:
        """Import what is used first: the broker, the command line and Spark's workers need nothing of this
        but the names of queues, and asyncio and websockets take a fifth of a second."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
