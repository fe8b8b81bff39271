"""The site starts without unused libraries; a user of one loads it later."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import ROOT

pytestmark = pytest.mark.process

SAY = """
import sys
import django
django.setup()
from django.urls import get_resolver
import broker_app.management.commands.broker
get_resolver().check()
print(*(name in sys.modules for name in ("requests", "psycopg", "pygments", "redis")))
import requests, django.contrib.postgres.fields
"""


def test_unused_libraries_are_not_loaded_at_the_start_and_can_be_afterwards(tmp_path: Path) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "mom_site.settings", "MOM_DATA": str(tmp_path)}
    started = subprocess.run(
        [sys.executable, "-c", SAY], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    assert started.stdout.split() == ["False"] * 4
