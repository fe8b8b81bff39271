"""One Spark for all tests of pipelines."""

import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from mom_pipeline import runner, session
from tests.journal.stage import quick_journal
from tests.pipeline.stage import JournalStage
from tests.support.broker_process import BrokerProcess
from tests.support.java import QUICK, require_java

#: makes a broker whose journal is in a directory of its own
MakeStage = Callable[..., JournalStage]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lets one process run all tests with the session: a second one takes seconds and memory."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on one core, with one partition after each shuffle; its cache is empty at the start."""
    require_java()
    # It writes at the end of the process, when the streams of tests are closed.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        # Each run configures the session again.
        patch.setitem(session.LOCAL_CONF, "spark.sql.shuffle.partitions", "1")
        with pytest.MonkeyPatch.context() as of_java:
            # Workers have the environment that Java was started with; brokers of other tests would refuse it.
            of_java.setenv("MOM_PIPELINE_CREDENTIAL", f"{BrokerProcess.user}:{BrokerProcess.password}")
            made = session.make_session("tests", "local[1]", conf=runner.CONF, java_options=QUICK, niceness=0)
        yield made
        made.stop()


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Removes the credential that a command leaves for workers: brokers of later tests would refuse it."""
    yield
    os.environ.pop("MOM_PIPELINE_CREDENTIAL", None)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "mom"


@pytest.fixture
def make_stage(tmp_path: Path) -> Iterator[MakeStage]:
    """Makes brokers with segment files of their own; `options` are those of the journal."""
    made: list[JournalStage] = []

    def make(name: str = "journal", options: dict[str, Any] | None = None, **facts: Any) -> JournalStage:
        directory = tmp_path / name
        journal = partial(quick_journal, directory, **(options or {}))
        made.append(JournalStage(journal, f"file://{directory}", **facts))
        return made[-1]

    yield make
    for stage in made:
        stage.journal.close()


@pytest.fixture
def stage(make_stage: MakeStage) -> JournalStage:
    return make_stage()
