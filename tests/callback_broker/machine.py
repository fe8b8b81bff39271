"""The machine of clients: its callback broker, and the file by which programs find that."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker_app.base.settings.roles import CALLBACK
from tests.callback_broker.test_callback_broker import POLICY
from tests.support.small_node import SmallNode, small_node


def programs_have_state(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs look for a callback broker below `state`, and start none."""
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    for name in ("MOM_AUTOCB", "REAUTOCB"):
        monkeypatch.delenv(name, raising=False)


@contextlib.asynccontextmanager
async def callback_broker(data: Path, state: Path) -> AsyncIterator[SmallNode]:
    """A callback broker that programs find."""
    async with small_node(data, POLICY, name="REcallback", role=CALLBACK, max_attempts=10**9) as local:
        stomp = f"stomp://127.0.0.1:{local.node.stomp_port}"
        file = state / "mom" / "REcallback" / "programs.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"stomp": stomp, "url": "http://-", "token": "mom_anna", "pid": 1}))
        yield local
