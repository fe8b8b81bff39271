"""ARCHITECTURE.md is a map of the whole house."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAP = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_every_package_is_on_the_map() -> None:
    packages = [
        path.parent.relative_to(ROOT).as_posix()
        for top in ("broker_app", "mom_client", "mom_site")
        for path in sorted((ROOT / top).rglob("__init__.py"))
    ]
    missing = [package for package in packages if f"`{package}/`" not in MAP]
    assert not missing


def test_every_folder_at_the_top_is_on_the_map() -> None:
    built = {"data", "build", "dist"}
    folders = [
        path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "__"))
    ]
    missing = [
        name
        for name in folders
        if name not in built and not name.endswith(".egg-info") and f"`{name}/`" not in MAP
    ]
    assert not missing


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    missing = [path.name for path in sorted(folder.glob("0*.md")) if f"({path.name})" not in listed]
    assert not missing
