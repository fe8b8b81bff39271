"""The place of the design, and that of its tokens, which are those of the console."""

from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
FOLDER = _ROOT / "docs" / "design"
TOKENS = _ROOT / "frontend" / "src" / "style" / "tokens.css"
