"""The state of a run as its folder has it: each module of `mom_pipeline.runs` has one as `STATE`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mom_pipeline.job_folder import JobFolder
from mom_pipeline.progress import Api


def _none(folder: JobFolder) -> list[dict[str, Any]]:
    return []


def _nothing(folder: JobFolder, api: Api) -> None:
    """Nothing has to be forgotten elsewhere."""


@dataclass(frozen=True)
class RunState:
    """`again` is what the next run does after a reset, with the parameters of the job in braces. `offsets`
    returns how far a run has come: rows with broker, epoch and position. `begin_at` has the next run begin at
    positions by broker, and returns where its former checkpoint is; without it, `instead` is what to do.
    `forget` has the broker forget what it knows of the run, and may raise PipelineError."""

    again: str
    offsets: Callable[[JobFolder], list[dict[str, Any]]] = _none
    begin_at: Callable[[JobFolder, Mapping[str, int]], Path | None] | None = None
    instead: str = ""
    forget: Callable[[JobFolder, Api], None] = _nothing
