"""The run `compact`: small files of an archive become large ones, without Spark."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from mom_pipeline.job_folder import Job
from mom_pipeline.jobs import compact
from mom_pipeline.progress import RUNNING
from mom_pipeline.run_state import RunState
from mom_pipeline.runner import Run, Surroundings, begun
from pyspark_mom import schema

VERSION: Final = 1


@dataclass(frozen=True)
class Compact:
    """The parameters: the archive's folder, and the time before which hours are compacted."""

    out: Path
    before: datetime


def run(name: str, wish: Compact, around: Surroundings) -> Run:
    """Compact, and return the run, which has ended. Raises PipelineError."""
    root = wish.out.absolute()
    with begun(Job(name, "compact", VERSION, schema.VERSION, {"out": str(root)}), around) as found:
        found.progress.set(state=RUNNING)
        began = time.monotonic()
        found.lineage.read_files(str(root))
        for hour in compact.compact(root, wish.before):
            now = time.monotonic()
            found.progress.batch(hour.rows, round(1000 * (now - began)))
            around.say(f"{hour.folder}: {hour.files_before} → {hour.files_after} files, {hour.rows:,} rows")
            began = now
            found.lineage.wrote(str(root), found.progress.rows)
            if found.stop.requested:
                break
    return found


STATE: Final = RunState(again="the next run looks at all hours, as each run does", instead="it has none")
