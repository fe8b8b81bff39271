import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

PROGRAM = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
found = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in found:
    importlib.import_module(name)
above = ("django", "channels", "rest_framework")
print(len(found), *sorted(name for name in sys.modules if name.split(".")[0] in above))
"""


@pytest.mark.parametrize(
    "package", ["broker_app.core", "broker_app.journal", "broker_app.engine", "broker_app.net", "mom_client"]
)
def test_everything_below_the_applications_runs_without_django(package: str) -> None:
    environment = {"PYTHONPATH": ".", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, package], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    count, *django = done.stdout.split()
    assert django == []
    assert int(count) > 0
