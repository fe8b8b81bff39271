"""Serve: runs the ASGI application on uvicorn or Daphne, on a socket and a loop that are ours.

Both start inside a running loop, leave signals alone, and stop when told. Both speak TLS when there are
certificates. Neither trusts a proxy's headers or logs requests.
"""

import asyncio
import contextlib
import socket
from typing import Any

from broker_app.config import Config
from broker_app.net.certificates import Certificates
from broker_app.net.rest.direct import Direct


async def serve(
    app: Any,
    config: Config,
    listener: socket.socket,
    stop: asyncio.Event,
    direct: Direct | None = None,
    certificates: Certificates | None = None,
) -> None:
    """Serves `app` on `listener` until `stop` is set, then ends open connections and returns.

    uvicorn's connections hand single messages to `direct`; Daphne's all go through `app`. A scope tells the
    names in a client certificate as "mom.certified".

    Requests still running after `config.drain` seconds are cancelled. The listener is closed.
    Daphne can be served once in the life of a process.
    """
    with contextlib.closing(listener):
        # Imported here: each brings a web server along, and a node needs one.
        if config.server == "daphne":
            from broker_app import serve_daphne

            await serve_daphne.serve(app, config, listener, stop, certificates)
        else:
            from broker_app import serve_uvicorn

            await serve_uvicorn.serve(app, config, listener, stop, direct, certificates)
