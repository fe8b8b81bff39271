import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

PROGRAM = """
import importlib, pkgutil, sys
room = importlib.import_module(sys.argv[1])
found = [module.name for module in pkgutil.walk_packages(getattr(room, "__path__", ()), room.__name__ + ".")]
for name in found:
    importlib.import_module(name)
roof = ("django", "channels", "rest_framework")
print(len(found), *sorted(name for name in sys.modules if name.split(".")[0] in roof))
"""


@pytest.mark.parametrize(
    "room", ["broker_app.core", "broker_app.journal", "broker_app.engine", "broker_app.net", "mom_client"]
)
def test_the_ground_floor_and_the_cellar_run_without_django(room: str) -> None:
    environment = {"PYTHONPATH": ".", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, room], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    count, *django = done.stdout.split()
    assert django == []
    assert (int(count) > 0) == (room != "broker_app.engine")
