"""A short run of the parser's fuzzer, which must find nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TARGET = Path(__file__).with_name("fuzz_stomp_parser.py")
ROOT = TARGET.parents[2]


@pytest.mark.fuzz
@pytest.mark.process
def test_fuzz_stomp_parser(tmp_path: Path) -> None:
    seconds = os.environ.get("FUZZ_SECONDS", "1")
    run = subprocess.run(
        [sys.executable, TARGET, seconds],
        cwd=tmp_path,  # where a counter-example would be written
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
