"""The packages that pipelines need besides those of a broker."""

from __future__ import annotations

import re
from importlib import metadata

from mom_pipeline.errors import PipelineError

INSTALL = "pip install 'mom-broker[pipeline]'"
#: package → the oldest release that will do
_OLDEST = {"pyspark": (4, 2), "pyarrow": (18, 0)}
NEEDED = frozenset(_OLDEST)


def versions() -> dict[str, str]:
    """The version of each package. Raises PipelineError if one is missing or too old."""
    found = {}
    for package, oldest in _OLDEST.items():
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise PipelineError(
                f"pipelines need the package {package}, which is not installed", INSTALL
            ) from None
        if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < oldest:
            needed = ".".join(map(str, oldest))
            raise PipelineError(
                f"{package} is {version}; pipelines need {needed} or newer", f"{INSTALL} --upgrade"
            )
        found[package] = version
    return found
