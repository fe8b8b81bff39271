import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

PACKAGES = ("broker_app.core", "broker_app.journal", "broker_app.engine", "broker_app.net", "mom_client")
#: prints of each package how many modules it has, and those of Django that are loaded once they are
PROGRAM = """
import importlib, pkgutil, sys
for package in map(importlib.import_module, sys.argv[1:]):
    found = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
    for name in found:
        importlib.import_module(name)
    above = ("django", "channels", "rest_framework")
    print(len(found), *sorted(name for name in sys.modules if name.split(".")[0] in above))
"""


def test_everything_below_the_applications_runs_without_django() -> None:
    environment = {"PYTHONPATH": ".", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *PACKAGES], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    for package, line in zip(PACKAGES, done.stdout.splitlines(), strict=True):
        count, *django = line.split()
        assert django == [], package
        assert int(count) > 0, package
