"""The conditions of a measurement besides the software: the machine, its disk, the date."""

from __future__ import annotations

import os
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    cores: int
    processor: str
    memory_gib: float
    kernel: str
    system: str
    file_system: str
    fdatasync_ms: float

    def line(self) -> str:
        return (
            f"{self.cores} cores, {self.processor}, {self.memory_gib:.0f} GiB, Linux {self.kernel}, "
            f"{self.system}, data on {self.file_system}, appending 1 KiB and fdatasync "
            f"{self.fdatasync_ms:.2f} ms (median)"
        )


def describe(directory: Path) -> Machine:
    """Describe this machine; `directory` is where the brokers keep their data."""
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        processor=_field(Path("/proc/cpuinfo"), "model name", ":") or platform.machine(),
        memory_gib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        kernel=platform.release(),
        system=_field(Path("/etc/os-release"), "PRETTY_NAME", "=").strip('"'),
        file_system=file_system(directory, Path("/proc/mounts").read_text()),
        fdatasync_ms=fdatasync_ms(directory),
    )


def _field(path: Path, key: str, separator: str) -> str:
    for line in path.read_text().splitlines():
        name, _, value = line.partition(separator)
        if name.strip() == key:
            return value.strip()
    return ""


def file_system(directory: Path, mounts: str) -> str:
    """The type of the file system that holds `directory`; `mounts` is the text of /proc/mounts."""
    where = directory.resolve()
    best, kind = Path("/"), "unknown"
    for line in mounts.splitlines():
        _, mount, this_kind, *_ = line.split()
        # A later line for the same mount point hides the earlier one.
        if where.is_relative_to(mount) and Path(mount).is_relative_to(best):
            best, kind = Path(mount), this_kind
    return kind


def fdatasync_ms(directory: Path, times: int = 200) -> float:
    """Median milliseconds to append 1 KiB to a file in `directory` and make it durable."""
    path = directory / "fdatasync-probe"
    taken = []
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        for _ in range(times):
            begin = time.perf_counter()
            os.write(descriptor, bytes(1024))
            os.fdatasync(descriptor)
            taken.append(time.perf_counter() - begin)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(taken) * 1000
