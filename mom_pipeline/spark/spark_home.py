"""The directory that Spark runs from: the installed PySpark, arranged so that Python workers start fast.

PySpark's own directory has its Python code in archives, which come first on the path of the workers. Python
keeps no compiled modules for them: each of the four daemons of a query compiles PySpark again, for a second.
The directory made here has links to the installed packages in their place.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from broker_app.base.process import ownership
from broker_app.base.process.ownership import ForeignPath
from mom_pipeline import requirements
from mom_pipeline.errors import PipelineError
from mom_pipeline.requirements import INSTALL
from mom_pipeline.spark.java import Java

LOGGING = "log4j2.properties"

_UNFINISHED = ".unfinished-"
#: an unfinished directory that is older belongs to a process that was killed
_UNFINISHED_S = 3600.0
#: Spark's own default prints warnings that nothing follows from, before a session can set a level. The logger
#: of the gateway has the same level, else Spark reports that it changes the level to that of a shell. For the
#: writer of batches one that was stopped is an error; those that matter are reported with their exception.
_LOGGING = """\
rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.writer.name = org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec
logger.writer.level = off
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def package() -> Path:
    """The directory of PySpark. Raises PipelineError unless it is installed with its jars, as pip does."""
    requirements.versions()
    found = _directory_of("pyspark")
    if not (found / "jars").is_dir():
        raise PipelineError(
            f"PySpark in {found} has no jars: it is a client for Spark elsewhere",
            f"{INSTALL}, or name a master that is not local",
        )
    return found


class UnwritableCacheError(PipelineError):
    """The cache cannot be written."""


def find(java: Java, environment: Mapping[str, str] = os.environ) -> Path:
    """The directory for this PySpark and `java`; PySpark's own, a slower one, if the cache cannot be written.

    Raises PipelineError if others may write the cache.
    """
    try:
        return make(java, environment)
    except UnwritableCacheError:
        return package()


def make(java: Java, environment: Mapping[str, str] = os.environ) -> Path:
    """The directory for this PySpark and `java` in the cache, which the first call makes.

    Raises UnwritableCacheError if that fails, and PipelineError if others may write the cache: they could
    have this user run their code.
    """
    installed = package()
    directory = cache(environment)
    home = directory / _name(installed, java)
    try:
        directory.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
        _refuse_strangers(directory)
        if not home.is_dir():
            _build(home, installed)
    except OSError as error:
        raise UnwritableCacheError(
            f"{directory} cannot be written ({error.strerror}): workers start slowly",
            "set XDG_CACHE_HOME to a directory that can be",
        ) from error
    return home


def cache(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory of all that is made here: `mom` in XDG_CACHE_HOME, else in ~/.cache."""
    root = Path(environment.get("XDG_CACHE_HOME", ""))
    return (root if root.is_absolute() else Path.home() / ".cache") / "mom"


def remove_stale(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Remove the directories whose PySpark is no longer installed; those that were removed."""
    directory = cache(environment)
    stale = [home for home in directory.glob("spark-*") if not (home / "jars").exists()]
    for path in [*stale, *filter(_is_old, directory.glob(f"{_UNFINISHED}*"))]:
        shutil.rmtree(path, ignore_errors=True)
    return stale


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _UNFINISHED_S
    except FileNotFoundError:
        return False


def _name(installed: Path, java: Java) -> str:
    """The name of the directory. Each installation has its own: what Java keeps there fits only its files."""
    build = re.sub(r"[^\w.]+", "-", java.build)
    place = hashlib.sha256(f"{installed}\n{java.home}".encode()).hexdigest()[:8]
    return f"spark-{requirements.versions()['pyspark']}-java-{build}-{place}"


def _refuse_strangers(directory: Path) -> None:
    try:
        ownership.check(directory)
    except ForeignPath as error:
        raise PipelineError(error.what, f"{error.fix} with XDG_CACHE_HOME") from error


def _build(home: Path, installed: Path) -> None:
    """Make the directory under another name first: other processes see all of it or nothing."""
    unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=home.parent))
    try:
        for link, target in _links(installed):
            (unfinished / link).parent.mkdir(parents=True, exist_ok=True)
            (unfinished / link).symlink_to(target)
        (unfinished / LOGGING).write_text(_LOGGING, encoding="utf-8")
        # Another process has made the same one if this fails.
        with contextlib.suppress(OSError):
            unfinished.rename(home)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    home.stat()


def _links(installed: Path) -> Iterator[tuple[str, str | Path]]:
    """The symbolic links: name → target. Workers get no more of the site-packages than they need first."""
    yield "jars", installed / "jars"
    yield "bin", installed / "bin"
    yield "python/packages/pyspark", installed
    yield "python/packages/py4j", _directory_of("py4j")
    for archive in (installed / "python" / "lib").glob("*.zip"):
        yield f"python/lib/{archive.name}", "../packages"


def _directory_of(name: str) -> Path:
    """The directory of an installed package."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.submodule_search_locations, name
    return Path(spec.submodule_search_locations[0]).resolve()
