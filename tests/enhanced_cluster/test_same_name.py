"""A second broker with the name of a member: it is refused, unless it is the mirror of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.enhanced_cluster.members import LEASE_S, MemberProcess
from tests.support.awaiting import until
from tests.support.ports import reserve_ports

pytestmark = pytest.mark.process


def b1(tmp_path: Path, folder: str, *options: str) -> MemberProcess:
    """A broker b1 of the cluster, in a folder of its own."""
    (port,) = reserve_ports(1)
    return MemberProcess(
        tmp_path / folder,
        *("--name", "b1", "--cluster-id", "shop", "--cluster-port", str(port)),
        *("--journal", f"file:{tmp_path / 'shared'}", "--lease-s", str(LEASE_S), *options),
        environment={"MOM_CLUSTER_SECRET": "a secret of the cluster in this test"},
    )


async def test_a_second_member_with_the_same_name_is_refused_and_its_mirror_is_on_standby(
    tmp_path: Path,
) -> None:
    first, second = b1(tmp_path, "first"), b1(tmp_path, "second")
    mirror = b1(tmp_path, "mirror", "--role", "-1")
    try:
        first.start()
        mirror.start(standby=True)
        second.start(standby=True)
        await until(lambda: not second.running, 30.0)
        addresses = f"127.0.0.1:{first.port} and 127.0.0.1:{second.port}"
        assert f"imq.brokerid: two brokers have the name 'b1', at {addresses}; give each" in second.log
        assert first.running
        first.kill()
        await until(lambda: " serves as the active one" in mirror.log, 30.0)
        first.start(standby=True)
        mirror.kill()
        await until(lambda: first.log.count(" serves as the active one") == 1, 30.0)
    finally:
        for broker in (first, second, mirror):
            broker.kill()
