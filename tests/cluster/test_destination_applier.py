"""Changes of destinations that other brokers have made, and this one cannot."""

from __future__ import annotations

import asyncio
from typing import Any

from broker_app.features.cluster.record.destination_applier import DestinationApplier, NoConfiguration
from broker_app.features.cluster.record.destination_changes import Applied, WantedValues
from tests.support.awaiting import until


async def test_others_are_served_between_the_reports_of_changes_that_are_not_applied() -> None:
    applied: list[Applied] = []
    turns, reported_in = 0, set()
    client: Any = None

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def report(_: object, name: str, **facts: object) -> None:
        reported_in.add(turns)

    applier = DestinationApplier(NoConfiguration(), client, applied.append, report)
    tasks = [asyncio.create_task(one) for one in (count_turns(), applier.run())]
    applier.apply("b2", {f"/queue/{number}": WantedValues({}, 0) for number in range(200)})
    await until(lambda: applied)
    for task in tasks:
        task.cancel()
    assert len(reported_in) == len(applied[0].faults) == 200
