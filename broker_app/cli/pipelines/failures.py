"""Errors of a pipeline as failures of the command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from broker_app.cli.base.failures import FAILED, Failure


@contextmanager
def pipeline_failures() -> Iterator[None]:
    """Turn the errors of a pipeline into failures of the command, with their exit codes."""
    from mom_pipeline.errors import PipelineError
    from mom_pipeline.requirements import INSTALL, NEEDED

    try:
        from mom_pipeline.archive_files import ArchiveError
        from mom_pipeline.spark.explain import explain
        from pyspark_mom.errors import MomError
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in NEEDED:
            raise
        what = f"pipelines need the package {package}, which is not installed"
        raise Failure(FAILED, what, fix=f"{INSTALL}; `mom pipeline doctor` checks the rest") from None
    try:
        yield
    except (PipelineError, MomError, ArchiveError) as error:
        found = explain(error)
        raise Failure(found.code, found.what, fix=found.fix) from error
