"""The directory that Spark runs from."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mom_pipeline import requirements
from mom_pipeline.errors import PipelineError
from mom_pipeline.spark import spark_home
from mom_pipeline.spark.java import Java
from tests.support.patience import patient

_JAVA = Java("PATH", Path("/opt/java"), "17.0.15", "17.0.15+6-Debian-1deb12u1")


def test_it_is_made_once(cache: Path) -> None:
    first = spark_home.make(_JAVA)
    made = first.stat().st_ino
    assert spark_home.make(_JAVA) == first
    assert first.stat().st_ino == made
    assert os.listdir(cache) == [first.name]


def test_its_name_shows_the_releases_of_spark_and_java(cache: Path) -> None:
    name = f"spark-{requirements.versions()['pyspark']}-java-17.0.15-6-Debian-1deb12u1-"
    assert spark_home.make(_JAVA).name.startswith(name)


def test_another_java_has_another(cache: Path) -> None:
    newer = Java("PATH", Path("/opt/java"), "17.0.16", "17.0.16+8")
    elsewhere = Java("PATH", Path("/opt/other"), _JAVA.version, _JAVA.build)
    assert len({spark_home.make(java) for java in (_JAVA, newer, elsewhere)}) == 3


def test_others_cannot_read_it(cache: Path) -> None:
    spark_home.make(_JAVA)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


def test_its_python_packages_are_those_installed_and_compiled(cache: Path) -> None:
    """Workers import from the names of Spark's archives, which are directories here."""
    home = spark_home.make(_JAVA)
    archives = sorted((home / "python" / "lib").iterdir())
    assert [path.name.split("-")[0] for path in archives] == ["py4j", "pyspark.zip"]
    for archive in archives:
        assert (archive / "pyspark").resolve() == spark_home.package()
        assert sorted(os.listdir(archive)) == ["py4j", "pyspark"]
    assert list((home / "jars").glob("spark-core_*.jar"))


@pytest.mark.process
def test_processes_that_make_it_at_once_share_one(cache: Path) -> None:
    code = (
        "from tests.pipeline.test_spark_home import _JAVA; from mom_pipeline.spark import spark_home;"
        "import sys; sys.stdin.read();"
        "print(spark_home.make(_JAVA) / 'jars', (spark_home.make(_JAVA) / 'jars').is_dir())"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    shown = {process.communicate(timeout=patient(60))[0] for process in started}
    assert shown == {f"{spark_home.make(_JAVA) / 'jars'} True\n"}
    assert len(os.listdir(cache)) == 1


def test_threads_that_make_it_at_once_share_one(cache: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        homes = set(threads.map(lambda _: spark_home.make(_JAVA), range(64)))
    assert [home.name for home in homes] == os.listdir(cache)


def test_a_cache_that_others_can_write_is_refused(cache: Path) -> None:
    spark_home.make(_JAVA)
    cache.chmod(0o777)
    for find in (spark_home.make, spark_home.find):
        with pytest.raises(PipelineError, match="mode 0777") as error:
            find(_JAVA)
        assert f"chmod o-w {cache}" in error.value.fix


def test_without_a_cache_spark_runs_from_its_own_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert spark_home.find(_JAVA) == spark_home.package()
    with pytest.raises(spark_home.UnwritableCacheError, match="cannot be written"):
        spark_home.make(_JAVA)


def test_a_relative_cache_is_ignored_as_the_specification_of_xdg_wants(tmp_path: Path) -> None:
    assert spark_home.cache({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache" / "mom"
    assert spark_home.cache({}) == Path.home() / ".cache" / "mom"


def test_those_of_removed_installations_are_removed(cache: Path) -> None:
    kept, stale = spark_home.make(_JAVA), cache / "spark-4.2.0-java-17-00000000"
    stale.mkdir()
    (stale / "jars").symlink_to("/nowhere")
    (stale / "classes.jsa").touch()
    unfinished, left = cache / ".unfinished-new", cache / ".unfinished-old"
    unfinished.mkdir()
    left.mkdir()
    os.utime(left, (0, 0))
    assert spark_home.remove_stale() == [stale]
    assert sorted(os.listdir(cache)) == [unfinished.name, kept.name]


def test_an_old_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "4.1.1")
    with pytest.raises(PipelineError, match=r"pyspark is 4\.1\.1; pipelines need 4\.2 or newer"):
        requirements.versions()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "_OLDEST", {"no-such-package": (1, 0)})
    with pytest.raises(PipelineError, match="need the package no-such-package") as error:
        requirements.versions()
    assert error.value.fix == "pip install 'mom-broker[pipeline]'"
