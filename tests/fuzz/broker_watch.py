"""Checks of a broker process under fuzzing: it stays up, has no internal errors, does not stall, and its
memory is bounded."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import re
import time
from pathlib import Path
from typing import Any

import httpx

from tests.support.broker_process import BrokerProcess

logging.getLogger("httpx").setLevel(logging.WARNING)  # it has a line for each request

#: how long a fuzz runs, and from where its chance begins
SECONDS = float(os.environ.get("FUZZ_SECONDS", "3"))
SEED = int(os.environ["STORM_SEED"])
#: the most processor time that the loop's thread may use at a stretch. On a busy machine it also waits for
#: other threads, which wait for a processor: that is bounded more widely
BUSY_S, BLOCKED_S = 0.05, 5.0
#: what the broker logs of it
_HELD_UP = re.compile(r"the event loop was held up.*?(?=\n\d{4}-|\Z)", re.DOTALL)
#: memory that it may take more than it had when it began to serve
GROWTH_BYTES = 600 * 1024 * 1024


def credentials(user: str, password: str) -> dict[str, str]:
    """The header of a user."""
    return {"authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


def admin(broker: BrokerProcess) -> httpx.AsyncClient:
    """A client of REST as the administrator."""
    return httpx.AsyncClient(
        base_url=f"{broker.url}/api/v1", headers=credentials(broker.user, broker.password), timeout=60
    )


def computed_s(pid: int) -> float:
    """The processor time of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Watch:
    """Looks once a second at how the broker is; `broken` are sentences about what it found."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._memory_bytes = 0
        self.broken: list[str] = []
        #: the worst that was seen
        self.busy_s = self.blocked_s = self.lag_s = 0.0
        self.grown_bytes = 0
        #: processor time of the broker's process
        self.computed_s = 0.0

    @property
    def worst(self) -> str:
        """The observations, for the log of a test."""
        return (
            f"the loop was held up for {self.busy_s} s at most by what it computed, for {self.blocked_s} s "
            f"in all, its lag was {self.lag_s} s; memory grew by {self.grown_bytes >> 20} MiB; "
            f"the broker has computed for {self.computed_s:.0f} s, the test for {time.process_time():.0f} s"
        )

    async def look(self) -> None:
        """Look at the broker for ever, until it breaks a law."""
        async with admin(self._broker) as rest:
            while not self.broken:
                await self._look(rest)
                await asyncio.sleep(1)

    async def _look(self, rest: httpx.AsyncClient) -> None:
        if not self._broker.running:
            self.broken.append(f"the broker ended:\n{self._broker.log[-8000:]}")
            return
        self.computed_s = computed_s(self._broker.pid)
        reply = await rest.get("/stats")
        if reply.status_code != 200:
            self.broken.append(f"the administrator is not served: {reply.status_code} {reply.text[:2000]}")
            return
        found: dict[str, Any] = reply.json()
        if "node" not in found:
            self.broken.append(f"/stats has no node: {reply.headers} {reply.text[:4000]}")
            return
        node: dict[str, Any] = found["node"]
        self._memory_bytes = self._memory_bytes or node["memory_bytes"]
        self.grown_bytes = max(self.grown_bytes, node["memory_bytes"] - self._memory_bytes)
        self.blocked_s = max(self.blocked_s, node["loop_blocked_1m_s"])
        self.busy_s = max(self.busy_s, node["loop_busy_1m_s"])
        self.lag_s = max(self.lag_s, node["loop_lag_1m_s"])
        if node["internal_errors"]:
            self.broken.append(f"{node['internal_errors']} internal errors:\n{self._broker.log[-8000:]}")
        if self.busy_s > BUSY_S or self.blocked_s > BLOCKED_S:
            logged = "\n".join(_HELD_UP.findall(self._broker.log)[-5:])
            self.broken.append(f"{self.worst}:\n{logged}")
        if self.grown_bytes > GROWTH_BYTES:
            self.broken.append(f"memory grew by {self.grown_bytes} bytes")
