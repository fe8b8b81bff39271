"""The site's settings for tests: the defaults, with data in a temporary directory."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

for name in [name for name in os.environ if name.startswith("MOM_")]:
    del os.environ[name]
_DATA = tempfile.mkdtemp(prefix="mom-tests-")
atexit.register(shutil.rmtree, _DATA, ignore_errors=True)
os.environ["MOM_DATA"] = _DATA

from mom_site.settings import *  # noqa: E402, F403
from mom_site.settings import DATABASES  # noqa: E402

# A file, because tests look at the database from several threads.
for alias, settings in DATABASES.items():
    settings["TEST"] = {"NAME": Path(_DATA) / f"test-{alias}.sqlite3"}

# Each client of a test would look through all static files again; browsers get them from real brokers.
SERVESTATIC_USE_FINDERS = False
PASSWORD_HASHERS = ["tests.support.passwords.QuickArgon2"]

# Brokers that tests start are processes with settings of their own.
del os.environ["MOM_DATA"]
os.environ["DJANGO_SETTINGS_MODULE"] = "mom_site.settings"
