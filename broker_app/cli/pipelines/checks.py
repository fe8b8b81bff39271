"""Checks whether this machine can run pipelines. Nothing of Spark is imported before a check needs it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from broker_app.cli.base.findings import ERROR, OK, WARNING, Finding

_MEMORY = "1g"


def brief() -> Iterator[Finding]:
    """Check for `mom doctor` what pipelines need. A broker runs without it, so nothing here is an error."""
    if find_spec("pyspark") is None:
        yield Finding("pipelines", OK, "not installed; pip install 'mom-broker[pipeline]' adds them")
    else:
        yield from _machine(WARNING)


def thorough() -> Iterator[Finding]:
    """Check for `mom pipeline doctor` what pipelines need, and start Spark."""
    found = list(_machine(ERROR))
    yield from found
    if all(finding.state == OK for finding in found):
        yield _cache()
        yield _class_data()
        yield _session()


def _machine(state: str) -> Iterator[Finding]:
    """Check the packages and Java, without starting Spark; what fails has `state`."""
    from mom_pipeline import requirements
    from mom_pipeline.errors import PipelineError
    from mom_pipeline.spark import gateway, java, spark_home

    check = "PySpark"
    try:
        versions = requirements.versions()
        yield Finding(check, OK, f"{versions['pyspark']} with PyArrow {versions['pyarrow']}")
        check = "Java"
        found = java.find()
        gateway.check(found, spark_home.find(found), _MEMORY)
        yield Finding(check, OK, f"{found.version} of {found.source}, in {found.home}")
    except PipelineError as error:
        yield Finding(check, state, error.what, error.fix)


def _cache() -> Finding:
    from mom_pipeline.spark import java, spark_home

    try:
        return Finding("cache", OK, str(spark_home.make(java.find())))
    except spark_home.UnwritableCacheError as error:
        return Finding("cache", WARNING, error.what, error.fix)


def _class_data() -> Finding:
    from mom_pipeline.spark import class_data, java, spark_home

    found = java.find()
    home = spark_home.find(found)
    if class_data.fits(found, home):
        return Finding("archive of classes", OK, f"{class_data.archive(home).stat().st_size:,} bytes")
    return Finding("archive of classes", WARNING, "none that fits: Spark starts slowly", "mom pipeline warm")


def _session() -> Finding:
    from mom_pipeline.errors import PipelineError
    from mom_pipeline.spark import trial

    try:
        return Finding("Spark", OK, f"first rows after {trial.run():.1f} s")
    except PipelineError as error:
        return Finding("Spark", ERROR, error.what, error.fix)
    except Exception as error:
        # Of the stack of Java and Python only the first line is about this machine.
        return Finding(
            "Spark", ERROR, f"{type(error).__name__}: {error}".split("\n")[0], "see its messages above"
        )
