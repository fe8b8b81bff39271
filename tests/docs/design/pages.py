"""The pages of docs/design/, written from the templates in docs/design/source/.

`python -m tests.docs.design.pages` writes them.
"""

import re
from pathlib import Path

from django.template import Context, Engine

from tests.docs.design.folder import FOLDER, ICONS

SOURCE = FOLDER / "source"
#: pages that are below the page of queues in the rail
QUEUES = ("queues", "queue", "empty")
_USED = re.compile(r'<use href="#([\w-]+)"')
_SYMBOL = re.compile(r'<symbol id="([\w-]+)".*?</symbol>')


def sources() -> list[Path]:
    """The templates that are pages; those with an underscore are included by others."""
    return [path for path in sorted(SOURCE.glob("*.html")) if not path.name.startswith("_")]


def rendered(source: Path) -> str:
    """The page of a template, with the icons that it uses."""
    engine = Engine(dirs=[str(SOURCE)], builtins=["tests.docs.design.tags"])
    context = Context({"page": source.stem, "section": source.stem if source.stem in QUEUES else ""})
    page = engine.get_template(source.name).render(context)
    text = "\n".join(line.rstrip() for line in page.splitlines() if line.strip()) + "\n"
    return text.replace("<!-- sprite -->", sprite(set(_USED.findall(text))))


def sprite(used: set[str]) -> str:
    """The symbols of the icons that are used. The console has them in a file of their own."""
    symbols = symbols_by_name()
    return '<svg hidden aria-hidden="true">' + "".join(symbols[name] for name in sorted(used)) + "</svg>"


def symbols_by_name() -> dict[str, str]:
    """All icons of the design."""
    text = "".join(file.read_text(encoding="utf-8") for file in ICONS)
    return {match[1]: match[0] for match in _SYMBOL.finditer(text)}


if __name__ == "__main__":
    for source in sources():
        (FOLDER / source.name).write_text(rendered(source), encoding="utf-8")
