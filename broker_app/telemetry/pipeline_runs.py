"""The runs of the data pipeline as a node knows them: their health, read from the store every few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from broker_app.base.reply_types import Facts

#: seconds between two reads
EVERY_S: Final = 5.0


class PipelineRuns:
    """`read` returns each run with name, health and error; it blocks."""

    def __init__(self, read: Callable[[], Sequence[Facts]]) -> None:
        self._read = read
        self._runs: Sequence[Facts] = ()

    def reports(self) -> Sequence[Facts]:
        """The runs as they were last read."""
        return self._runs

    async def run(self) -> None:
        """Read them again and again, until cancelled."""
        while True:
            self._runs = await asyncio.to_thread(self._read)
            await asyncio.sleep(EVERY_S)
