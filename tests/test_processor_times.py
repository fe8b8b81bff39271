"""The processor time of tests has that of the processes that they start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.broker_process import ROOT
from tests.support.children import Child
from tests.support.forked import Forked
from tests.support.polling import poll
from tests.support.processor_times import computed_s

pytestmark = pytest.mark.process

COMPUTE = "import time\nwhile time.process_time() < 0.5: pass\n"


def test_a_child_counts_while_it_runs_and_after_its_end() -> None:
    before = computed_s()
    with Child([sys.executable, "-c", f"{COMPUTE}input()"], stdin=subprocess.PIPE) as child:
        poll(lambda: computed_s() - before >= 0.5)
        child.kill()
    assert computed_s() - before >= 0.5


def test_a_forked_process_counts_while_it_runs_and_after_its_end() -> None:
    before = computed_s()
    shell = ["python", "manage.py", "shell", "--no-imports", "-c", f"{COMPUTE}input()"]
    with Forked(shell, cwd=ROOT, stdin=subprocess.PIPE) as forked:
        poll(lambda: computed_s() - before >= 0.5)
        forked.kill()
    assert computed_s() - before >= 0.5
