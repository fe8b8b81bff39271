"""A run that does not run now, as its folder has it: how far it has come, and how that is changed."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from mom_pipeline.archive_tables import EVENT, cursor
from mom_pipeline.errors import USAGE, PipelineError
from mom_pipeline.job_folder import JobFolder, stored_job
from mom_pipeline.progress import Api, ApiRefused, ApiUnreachable
from mom_pipeline.run_state import RunState
from mom_pipeline.runs import JOBS
from pyspark_mom import options

#: jobs that report how far they have read the journal
_WITH_CURSORS: Final = ("archive", "statistics")


class StoredRun:
    """The run of a name in the folder `state`. Raises PipelineError where there is none."""

    def __init__(self, state: Path, name: str) -> None:
        self.job = stored_job(state, name)
        self._folder = JobFolder(state, self.job)
        if self.job.job not in JOBS:
            raise PipelineError(f"{name} is a run of the job {self.job.job!r}, which is not known", "", USAGE)
        self._state: RunState = import_module(f"mom_pipeline.runs.{self.job.job}").STATE

    @property
    def path(self) -> Path:
        """Its folder."""
        return self._folder.path

    def offsets(self) -> list[dict[str, Any]]:
        """A row for each table and broker, with the epoch and position that it has reached."""
        return self._state.offsets(self._folder)

    def wanted(self, text: str) -> dict[str, int]:
        """The positions by broker of a JSON object, where this run may begin. Raises PipelineError."""
        if self._state.begin_at is None:
            what = f"the offsets of a run of {self.job.job} cannot be set"
            raise PipelineError(what, self._state.instead, USAGE)
        parameters = self.job.parameters
        given = {"url": parameters["source"], "broker": parameters["broker"], "startingOffsets": text}
        starting = options.parse(given).starting
        if isinstance(starting, str) or not all(isinstance(position, int) for _, position in starting):
            raise PipelineError(
                f"{text} has no positions", f'write them like {{"{parameters["broker"]}": 812345}}', USAGE
            )
        return {name: int(position) for name, position in starting}

    def begin_at(self, positions: dict[str, int]) -> Path | None:
        """Have the next run begin at these positions; return where its former checkpoint is. Raises
        PipelineError while it runs."""
        with self._folder.locked():
            assert self._state.begin_at is not None, "wanted() has checked it"
            return self._state.begin_at(self._folder, positions)

    @property
    def again(self) -> str:
        """A sentence that describes the next run after a reset."""
        return self._state.again.format(**self.job.parameters)

    @property
    def cursors(self) -> list[str]:
        """The names of its cursors: its own, and one for each further table."""
        if self.job.job not in _WITH_CURSORS:
            return []
        return [cursor(self.job.name, table) for table in self.job.parameters.get("tables", (EVENT,))]

    def reset(self, api: Api, say: Callable[[str], None]) -> list[str]:
        """Have the next run begin again; return the cursors that the broker has dropped. Raises PipelineError
        while it runs, or when the broker does not answer that has to forget something."""
        with self._folder.locked():
            self._state.forget(self._folder, api)
            dropped = self._drop_cursors(api, say)
            # Under another name first: what is left of it after a kill is no run.
            removed = self.path.with_name(f".removed-{uuid.uuid4().hex}")
            self.path.rename(removed)
        shutil.rmtree(removed)
        return dropped

    def _drop_cursors(self, api: Api, say: Callable[[str], None]) -> list[str]:
        """Have the broker let go of the journal that it keeps for this run, if it can be reached; return the
        names of the cursors that it had."""
        dropped = []
        for name in self.cursors:
            path = f"/pipeline/cursors/{quote(name, safe='')}"
            try:
                api.call("DELETE", path)
            except (ApiRefused, ApiUnreachable) as error:
                if not (isinstance(error, ApiRefused) and error.missing):
                    say(f"the broker keeps journal for the cursor {name}, until DELETE {path}: {error}")
            else:
                dropped.append(name)
        return dropped
