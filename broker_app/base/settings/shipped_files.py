"""Folders of files that come with MOM, which settings find by their names."""

from pathlib import Path
from typing import Final

#: files of reflexes, in OpenMOM's form
REFLEX_FILES: Final = Path(__file__).parents[2] / "reflex" / "files"
