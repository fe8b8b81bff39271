#!/usr/bin/env python3
"""The door to Django's commands; `manage.py broker` runs a node."""

import gc
import os
import sys

from broker_app import config


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mom_site.settings")
    from django.core.management import execute_from_command_line

    # Options that say where the data is must be known before Django opens its database.
    if sys.argv[1:2] == ["broker"]:
        gc.disable()  # until it runs: what is imported until then stays
        os.environ.update(config.options_in(sys.argv[2:]))
    try:
        execute_from_command_line(sys.argv)
    except config.ConfigError as error:
        print(f"mom: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
