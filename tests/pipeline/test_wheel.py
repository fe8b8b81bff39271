"""The wheel `pyspark-mom` has every module that the data source needs, and needs no package but three."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "wheels" / "pyspark-mom"
#: what workers of a cluster have, by its packages
PROVIDED = ("google_crc32c", "py4j", "pyarrow", "pyspark")

_IMPORT_ALL = """
import importlib, pathlib, sys
sys.path += sys.argv[1:]
root = pathlib.Path(sys.argv[1])
for file in sorted(root.rglob("*.py")):
    parts = file.relative_to(root).with_suffix("").parts
    importlib.import_module(".".join(part for part in parts if part != "__init__"))
print(len(sys.modules))
"""


def unpacked(folder: Path) -> Path:
    """The content of the wheel, by its project file."""
    build = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    for source, target in build["targets"]["wheel"]["force-include"].items():
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        if (PROJECT / source).is_dir():
            shutil.copytree(PROJECT / source, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(PROJECT / source, folder / target)
    return folder


@pytest.mark.process
def test_every_module_of_the_wheel_imports_with_nothing_but_arrow_and_spark(tmp_path: Path) -> None:
    wheel, packages = unpacked(tmp_path / "wheel"), tmp_path / "packages"
    packages.mkdir()
    for name in PROVIDED:
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        (packages / name).symlink_to(Path(spec.origin).parent)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _IMPORT_ALL, str(wheel), str(packages)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
