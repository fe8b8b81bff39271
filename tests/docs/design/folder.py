"""The place of the design."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "design"
