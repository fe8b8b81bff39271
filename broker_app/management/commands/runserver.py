"""`manage.py runserver` is Daphne's: the pages without a broker, for work on the pages."""

from daphne.management.commands.runserver import Command as Command
