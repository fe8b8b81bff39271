"""Client tests run in virtual time; modules that talk to a real broker override `event_loop_policy`."""

import asyncio

import pytest

from tests.client.stage import FakeBroker, VirtualTimePolicy


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return VirtualTimePolicy()


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()
