"""A node that answers the console's pages, on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest
from django.core.handlers.wsgi import WSGIRequest

Node = TypeVar("Node")


@contextmanager
def answering(make: Callable[[asyncio.AbstractEventLoop], Node]) -> Iterator[Node]:
    """Give what `make` makes for the loop to all pages of the test client."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    node = make(loop)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WSGIRequest, "scope", {"mom.node": node}, raising=False)
        yield node
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
