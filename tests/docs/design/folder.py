"""The place of the design, and those of its tokens and icons, which are the console's."""

from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
FOLDER = _ROOT / "docs" / "design"
TOKENS = _ROOT / "frontend" / "src" / "style" / "tokens.css"
#: those that the console loads, and those that it has no use for yet
ICONS = (_ROOT / "static" / "console" / "icons.svg", FOLDER / "icons.svg")
