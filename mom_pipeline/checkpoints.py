"""Checkpoints of Spark's streaming queries: `offsets/<n>` is written before batch n, `commits/<n>` after
it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from mom_pipeline.errors import PipelineError
from pyspark_mom import offsets
from pyspark_mom.offsets import Place

#: lines before the offsets of the sources: the version, and facts about the batch
_HEAD_LINES = 2


class Reached(NamedTuple):
    """The last batch that is complete, and the places that it has read up to, by broker. `begun` is a later
    one that is not complete, which is made again."""

    batch: int
    places: dict[str, Place]
    begun: int | None


def reached(checkpoint: Path) -> Reached | None:
    """The progress of a query; None when no batch is complete. Raises PipelineError."""
    done, begun = _newest(checkpoint / "commits"), _newest(checkpoint / "offsets")
    if done is None:
        return None
    file = checkpoint / "offsets" / str(done)
    try:
        sources = file.read_text(encoding="utf-8").splitlines()[_HEAD_LINES:]
        places = offsets.parse(json.loads(sources[0]))
    except (OSError, ValueError, IndexError, AttributeError) as error:
        raise PipelineError(f"{file} cannot be read: {error}", "restore it") from error
    return Reached(done, places, begun if begun is not None and begun > done else None)


def _newest(folder: Path) -> int | None:
    """The largest number among the names of files."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return None
    return max((int(name) for name in names if name.isdigit()), default=None)
