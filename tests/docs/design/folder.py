"""The place of the design, and those of its tokens and icons, which are the console's."""

from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
FOLDER = _ROOT / "docs" / "design"
TOKENS = _ROOT / "frontend" / "src" / "style" / "tokens.css"
ICONS = _ROOT / "static" / "console" / "icons.svg"
