"""Charts of lags over time, as the island `mom-chart` takes them from attributes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from broker_app.telemetry.lag_samples import STEP_S

#: the tones of lines in their order
_TONES: Final = ("accent", "warn", "good", "quiet")


class LagChart(NamedTuple):
    """The attributes `lines` and `columns`, as JSON."""

    lines: str
    columns: str


def lag_chart(samples: Mapping[str, Sequence[int]], now_s: float | None = None) -> LagChart | None:
    """A chart with a line for each reader, whose samples end now; None without any two samples."""
    longest = max(map(len, samples.values()), default=0)
    if longest < 2:
        return None
    lines = [
        {"key": name, "label": name, "tone": _TONES[number % len(_TONES)], "dashed": number % 2 == 1}
        for number, name in enumerate(samples)
    ]
    end = int((time.time() if now_s is None else now_s) // STEP_S * STEP_S)
    series = {name: [*[None] * (longest - len(lags)), *lags] for name, lags in samples.items()}
    columns = {"t0": end - (longest - 1) * STEP_S, "step_s": STEP_S, "series": series}
    return LagChart(json.dumps(lines), json.dumps(columns))
