"""Webhooks of brokers that mirror each other: the one that takes over goes on pushing."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.hook_server import hook_server
from tests.support.mirrors import Mirrors, is_followed, wait_until_serving
from tests.support.polling import poll

pytestmark = pytest.mark.process


async def test_the_mirror_that_takes_over_pushes_what_was_not_accepted(mirrors: Mirrors) -> None:
    allow = {"MOM_WEBHOOK_ALLOW": "127.0.0.1"}
    main, mirror = mirrors.make(environment=allow), mirrors.make(environment=allow)
    main.start()
    mirror.start(standby=True)
    with hook_server() as receiver:
        spec = {"url": receiver.url, "queue": "a", "retry_s": 0.1, "max_retry_s": 0.3}
        assert main.request("PUT", "/api/v1/callbacks/hook", json_body=spec).status == 201
        async with mirrors.client() as client:
            await asyncio.gather(*(client.send("/queue/a", b"%d" % number) for number in range(100)))
            await asyncio.to_thread(poll, lambda: len(set(receiver.bodies)) == 100, 30)
            receiver.status = 503
            await asyncio.gather(*(client.send("/queue/a", b"%d" % number) for number in range(100, 150)))
            await asyncio.to_thread(poll, lambda: is_followed(main))
            main.kill()
            wait_until_serving(mirror)
            receiver.status = 200
            await asyncio.gather(*(client.send("/queue/a", b"%d" % number) for number in range(150, 200)))
            await asyncio.to_thread(poll, lambda: len(set(receiver.bodies)) == 200, 60)
        ids: dict[bytes, set[str]] = {}
        for hook in receiver.hooks:
            ids.setdefault(hook.body, set()).add(hook.headers["webhook-id"])
        assert {len(known) for known in ids.values()} == {1}, "ids are the same at both brokers"
        poll(lambda: mirror.request("GET", "/api/v1/callbacks/hook/status").json()["pending"] == 0, 30)
