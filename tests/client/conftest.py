"""Client tests run in virtual time, but for modules that say ``REAL_TIME = True``."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.client.stage import FakeBroker, VirtualTimeLoop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    module = item.getparent(pytest.Module)
    if module is not None and getattr(module.obj, "REAL_TIME", False):
        return {"real-time": asyncio.new_event_loop}
    return {"virtual-time": VirtualTimeLoop}


@pytest.fixture
def stage() -> FakeBroker:
    return FakeBroker()
