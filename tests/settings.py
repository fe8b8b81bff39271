"""The site's settings for tests: the defaults, with data in a temporary directory."""

import atexit
import os
from pathlib import Path

from tests.support.temporary import temporary_directory

for name in [name for name in os.environ if name.startswith("MOM_")]:
    del os.environ[name]
_DATA = temporary_directory("tests")
atexit.register(_DATA.cleanup)
os.environ["MOM_DATA"] = _DATA.name

from mom_site.settings import *  # noqa: E402, F403
from mom_site.settings import DATABASES  # noqa: E402

# A file, because tests look at the database from several threads.
for alias, settings in DATABASES.items():
    settings["TEST"] = {"NAME": Path(_DATA.name) / f"test-{alias}.sqlite3"}

# Each client of a test would look through all static files again; browsers get them from real brokers.
SERVESTATIC_USE_FINDERS = False
PASSWORD_HASHERS = ["tests.support.passwords.QuickArgon2"]

# Brokers that tests start are processes with settings of their own.
del os.environ["MOM_DATA"]
os.environ["DJANGO_SETTINGS_MODULE"] = "mom_site.settings"
