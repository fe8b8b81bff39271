"""A process that starts is given up when it makes no progress, however long it takes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mom_pipeline.errors import TEMPORARY, USAGE, PipelineError
from mom_pipeline.spark.gateway import Gateway, stall_limit_s
from mom_pipeline.spark.start_watch import StartWatch, cpu_s
from tests.support.polling import poll


def test_a_start_may_take_long_while_it_computes_and_not_while_it_does_not() -> None:
    now, computed = 0.0, 0.0
    watch = StartWatch(60, lambda: computed, lambda: now)
    for _ in range(10):  # ten minutes on a busy machine
        now, computed = now + 59, computed + 0.01
        assert not watch.is_stalled()
    now += 61
    assert watch.is_stalled()


@pytest.mark.process
def test_the_time_that_a_process_has_computed_grows() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            poll(lambda: cpu_s(process.pid) > 0.05)
        finally:
            process.kill()
    assert cpu_s(process.pid) == 0.0


@pytest.mark.process
def test_a_java_that_hangs_is_ended_and_the_error_shows_how_to_wait_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MOM_PIPELINE_START_STALL_S", "1")
    process = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE)
    directory = tempfile.TemporaryDirectory()
    with pytest.raises(PipelineError, match="Java has computed nothing for 1 s") as raised:
        Gateway(process, directory).connect()
    assert "--nice 0" in raised.value.fix and "MOM_PIPELINE_START_STALL_S=2" in raised.value.fix
    assert raised.value.code == TEMPORARY
    assert process.poll() is not None and not Path(directory.name).exists()


@pytest.mark.parametrize("text", ["soon", "0", "inf", "nan"])
def test_a_limit_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(PipelineError, match="MOM_PIPELINE_START_STALL_S is") as raised:
        stall_limit_s({"MOM_PIPELINE_START_STALL_S": text})
    assert raised.value.code == USAGE
