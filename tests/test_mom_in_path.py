"""The command `mom` that is forked for shells of tests is like one that is started."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.mom_in_path import mom_in_path

pytestmark = pytest.mark.process


def test_it_has_the_streams_the_directory_the_environment_and_the_exit_code_of_the_shell(
    tmp_path: Path,
) -> None:
    script = "mom context add here --url http://127.0.0.1:1; mom context ls | cat; mom no-command 2> errors"
    with mom_in_path() as folder:
        environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{folder}:{os.environ['PATH']}"}
        environment.pop("XDG_CONFIG_HOME", None)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert "http://127.0.0.1:1" in done.stdout
    assert "no-command" in (tmp_path / "errors").read_text()
    assert done.returncode == 2
    assert list((tmp_path / ".config").rglob("*")) != []
