"""The surroundings of every job: the folder, the lease of its name, progress, and how it ends.

A run holds its folder on this machine and its name at the console's API. It ends `done`, `stopped` by a
signal or the console, or `failed` with one sentence.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mom_pipeline import lineage, session
from mom_pipeline.job_folder import Job, JobFolder
from mom_pipeline.lineage import Lineage
from mom_pipeline.progress import DONE, FAILED, RUNNING, STOPPED, Api, Progress, Reporter
from mom_pipeline.spark.explain import explain
from mom_pipeline.spark.gateway import NICENESS
from mom_pipeline.stop import Stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: file with the id of the run that holds its folder
_RUNNING = "run.json"
#: configuration of the session of every run
CONF = {
    # Else each expression asks Java several times for the line of Python that an error would name.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Progress is looked at twice a second.
    "spark.sql.streaming.numRecentProgressUpdates": "20",
}


@dataclass(frozen=True)
class Surroundings:
    """The folder of the state of a run, the API for its reports, and the place of Spark. `say` prints a
    sentence, `show` the progress."""

    state: Path
    api: Api
    say: Callable[[str], None]
    show: Callable[[Progress], None]
    master: str | None = None
    memory: str = "1g"
    niceness: int = NICENESS
    #: raise errors as they are
    verbose: bool = False
    #: starts the run again; empty if that is not known
    command: str = ""


@dataclass
class Run:
    """A run that has begun."""

    name: str
    folder: JobFolder
    around: Surroundings
    lineage: Lineage
    reporter: Reporter
    progress: Progress
    stop: Stop

    @contextmanager
    def spark(self, *, interrupted: bool = True) -> Iterator[SparkSession]:
        """The session. Its jobs end when a stop is requested, if they may be `interrupted`."""
        self.around.show(self.progress)
        spark = open_session(self.name, self.around)
        self.progress.set(state=RUNNING)
        # PySpark takes SIGINT for itself when it starts.
        with self.stop.on_signals(), ExitStack() as stack:
            if interrupted:
                stack.enter_context(self.stop.interrupting(lambda: session.interrupt(spark)))
            yield spark


def open_session(name: str, around: Surroundings) -> SparkSession:
    """The session of a run, which stays until the process ends. Raises PipelineError."""
    return session.make_session(
        f"mom {name}", around.master, around.memory, conf=CONF, niceness=around.niceness
    )


@contextmanager
def begun(job: Job, around: Surroundings) -> Iterator[Run]:
    """A run, from its begin to the report of its end. Raises PipelineError."""
    folder, run_id = JobFolder(around.state, job), str(uuid.uuid4())
    progress, stop = Progress(), Stop()
    reporter = Reporter(around.api, job.name, run_id, progress, stop, around.say)
    run = Run(job.name, folder, around, Lineage(folder, run_id), reporter, progress, stop)
    with folder.locked(), _noted(folder, reporter, run_id), stop.on_signals():
        reporter.begin(job.job, job.parameters, around.command)
        try:
            run.lineage.write(lineage.START)
            yield run
            run.lineage.write(lineage.ABORT if run.stop.requested else lineage.COMPLETE)
        except Exception as error:
            if run.stop.requested:
                run.lineage.write(lineage.ABORT)
                reporter.end(STOPPED)
                return
            failure = explain(error)
            with suppress(OSError):  # such as that of the failure
                run.lineage.write(lineage.FAIL, str(failure))
            reporter.end(FAILED, str(failure))
            if around.verbose and failure is not error:
                raise
            raise failure from error
        except BaseException:
            reporter.end(FAILED, "the process was interrupted")
            raise
        reporter.end(STOPPED if run.stop.requested else DONE)


@contextmanager
def _noted(folder: JobFolder, reporter: Reporter, run_id: str) -> Iterator[None]:
    """Keep the id of a run in its locked folder until it ends. A former one that is there was killed: the
    console learns that, which else holds the name for it for half a minute."""
    former = folder.read(_RUNNING)
    if former is not None:
        reporter.end_killed(former["run_id"])
    folder.write(_RUNNING, {"run_id": run_id})
    try:
        yield
    finally:
        (folder.path / _RUNNING).unlink()
