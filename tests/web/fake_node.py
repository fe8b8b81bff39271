"""A node that only echoes, and a process that serves it: `python -m tests.web.fake_node`.

Settings come from MOM_ variables. Prints the port when it listens; stops at SIGTERM.
"""

import asyncio
import os
import signal
from typing import Any

import uvloop

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mom_site.settings")

from mom_site.asgi import Site  # isort: skip

from broker_app import config
from broker_app.net.auth.login import Identity, Logins
from broker_app.net.policy.policy import Policy, UserFacts
from broker_app.net.server import serve
from broker_app.net.server.listeners import listen
from broker_app.net.tls.certificates import Certificates
from tests.support.no_alerts import NO_ALERTS


class EchoRest:
    """Answers a request with its own body; the path …/wait never gets an answer."""

    def owns(self, scope: Any) -> bool:
        return bool(scope["path"].startswith("/api/v1/queues/"))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            body += event.get("body", b"")
            more = event.get("more_body", False)
        if scope["path"].endswith("/wait"):
            await asyncio.Event().wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-plane", b"data")]})
        await send({"type": "http.response.body", "body": body})


class EchoNode:
    """Greets a WebSocket with its user and then echoes; knows one browser session, `good`."""

    stomp_port = 0
    alerts = NO_ALERTS
    mirror = None
    cluster_consoles = list

    def __init__(self) -> None:
        policy = Policy(users={"john": UserFacts("john", "hash")})
        sessions = {"good": "john"}
        self.logins = Logins(policy, lambda password, hash: False, sessions.get, session_cookie="mom_session")
        self.rest = EchoRest()

    async def serve_websocket(self, scope: Any, receive: Any, send: Any, identity: Identity | None) -> None:
        assert (await receive())["type"] == "websocket.connect"
        offered = scope["subprotocols"]
        await send({"type": "websocket.accept", "subprotocol": offered[0] if offered else None})
        scope.get("mom.authenticated", lambda: None)()
        await send({"type": "websocket.send", "text": identity.user if identity else "nobody"})
        while (event := await receive())["type"] == "websocket.receive":
            if event.get("bytes") is not None:
                await send({"type": "websocket.send", "bytes": event["bytes"]})
            else:
                await send({"type": "websocket.send", "text": event["text"]})


async def main() -> None:
    mom = config.load()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    listener = listen(mom.host, 0)
    print(listener.getsockname()[1], flush=True)
    certificates = Certificates(mom) if mom.tls_cert is not None else None
    following = asyncio.create_task(certificates.follow(0.1)) if certificates is not None else None
    await serve.serve(Site(EchoNode()), mom, listener, stop, None, certificates)
    if following is not None:
        following.cancel()
    print("stopped", flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
