"""A node whose journal hangs: no sync ends once the file `hangs` is in its data directory.

`python -m tests.support.hung_node DATA STOMP_PORT LIMIT_S`; its log goes to `log` there.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from threading import Event

from broker_app.journal.files import File
from broker_app.net.policy.policy import Policy, UserFacts
from broker_app.node import process
from broker_app.node.stop_watch import StopWatch
from tests.support.node_fork import Order, become


def main(data: Path, stomp_port: int, limit_s: float) -> int:
    sync = File.sync

    def may_hang(file: File) -> None:
        if (data / "hangs").exists():
            Event().wait()
        sync(file)

    setattr(File, "sync", may_hang)  # noqa: B010 -- mypy would refuse the assignment
    for name, value in {
        "StopWatch": partial(StopWatch, limit_s=limit_s),
        "_EACH_S": 0.05,
        "_SAME_S": 0.05,
    }.items():
        setattr(process, name, value)
    policy = Policy(version=1, users={"ann": UserFacts("ann", "ann", admin=True)})
    settings = {"name": "hung", "data": data, "drain": 0.2, "port": 0, "stomp_port": stomp_port}
    lifeline, _ = os.pipe()
    return become(Order(settings, policy, data / "log"), lifeline)


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
