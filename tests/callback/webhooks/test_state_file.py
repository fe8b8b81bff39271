"""The file with the state of callbacks."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from pathlib import Path

from broker_app.features.callbacks.webhooks.state_file import ENDED, VERIFIED, StateFile
from tests.callback.webhooks.hooks import callback


async def test_a_slow_disk_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    draft = tmp_path / "callbacks.draft"
    os.mkfifo(draft)  # whoever opens it for writing waits for a reader
    text: list[str] = []
    reader = threading.Timer(1.0, lambda: text.append(draft.read_text()))
    reader.start()
    states = StateFile(tmp_path)
    began = time.monotonic()
    states.put(callback("http://a"), VERIFIED)
    for _ in range(10):  # it is written in one of these turns of the loop
        await asyncio.sleep(0)
    assert time.monotonic() - began < 0.5
    await states.close()
    reader.join()
    assert list(json.loads(text[0])) == ["hook"]


async def test_what_was_put_is_there_after_a_restart_and_the_last_state_counts(tmp_path: Path) -> None:
    hook, other = callback("http://a"), callback("http://b", "other")
    states = StateFile(tmp_path)
    for state in (VERIFIED, "", ENDED):
        states.put(hook, state)
    states.put(other, VERIFIED)
    await states.close()
    states = StateFile(tmp_path)
    assert (states.get(hook), states.get(other)) == (ENDED, VERIFIED)
    states.forget("other")
    await states.close()
    assert StateFile(tmp_path).get(other) == ""
