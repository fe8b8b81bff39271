"""The types of pushed events: those of the broker itself begin with `mom.`, and messages cannot have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_app.features.callbacks.webhooks.callback import BINARY, STRUCTURED
from tests.callback.webhooks.hooks import callback, hooks
from tests.callback.webhooks.receiver import receiver

OF_AN_EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "elsewhere"}


@pytest.mark.parametrize("content", [BINARY, STRUCTURED])
@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"type": "mom.arrived"}, "mom.arrived"),
        ({**OF_AN_EVENT, "ce-type": "mom.callback.challenge"}, "mom.callback.challenge"),
        ({**OF_AN_EVENT, "ce-type": " MOM.arrived"}, "MOM.arrived"),
    ],
)
async def test_a_message_is_not_pushed_as_an_event_of_the_broker(
    tmp_path: Path, headers: dict[str, Any], kind: str, content: str
) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url, content=content))
        await own.state("running")
        challenges = len(there.all)
        await own.publish(b"{}", **{"content_type": "application/json", **headers})
        pushed = (await there.count(1))[0]
        assert len(there.all) == challenges + 1
        found = pushed.json()["type"] if content == STRUCTURED else pushed.headers["ce-type"]
        assert found == "mom.message"
        assert pushed.headers["mom-header-type"] == kind


async def test_a_type_of_an_application_stays(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url))
        await own.publish(b"{}", **{**OF_AN_EVENT, "ce-type": "momentum.changed"})
        pushed = (await there.count(1))[0]
        assert pushed.headers["ce-type"] == "momentum.changed"
        assert "mom-header-type" not in pushed.headers
