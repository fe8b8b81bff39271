"""The file system of a directory."""

from pathlib import Path

from benchmarks.machine import file_system

MOUNTS = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmp/deep xfs rw 0 0\n"


def test_the_innermost_mount_point_counts() -> None:
    assert file_system(Path("/nowhere"), MOUNTS) == "ext4"
    assert file_system(Path("/tmp/x"), MOUNTS) == "tmpfs"
    assert file_system(Path("/tmp/deep/er"), MOUNTS) == "xfs"
