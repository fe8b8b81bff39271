"""The files of the console that are not Python: templates, and what `make build` makes of its sources."""

from typing import Final

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

#: where the build is, below the folder of static files
BUILT: Final = "console/dist/"
MANIFEST: Final = f"{BUILT}manifest.json"
_NEEDED: Final = ("templates/base.html", f"static/{MANIFEST}")


def check() -> None:
    """Raises ImproperlyConfigured, which says how to fix it, where pages could not be shown."""
    for name in _NEEDED:
        path = settings.SITE_FILES / name
        if not path.is_file():
            raise ImproperlyConfigured(
                f"the console is not complete: {path} is missing\n"
                "  fix: in a checkout run `make build`; elsewhere install the wheel that `make wheel` builds"
            )
