"""A file system of a few megabytes, for tests of a disk that fills up."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.missing import missing


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """`place`, as a tmpfs of `size` bytes. Mounting needs root: without, the test is skipped at home and
    fails in CI."""
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(place)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        missing(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
