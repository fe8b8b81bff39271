"""Leaves out the fixtures that pytest-django has for each test where they would do nothing.

Its eight fixtures take longer to set up than many a test runs, and there are ten thousand tests.
"""

from __future__ import annotations

import pytest

#: fixtures, by the mark of the tests that need them
_OF_MARKS = {
    "_django_db_marker": "django_db",
    "_django_isolate_apps": "django_isolate_apps",
    "_django_set_urlconf": "urls",
    "_template_string_if_invalid_marker": "ignore_template_errors",
}
#: for mails, sites and servers of Django, and for its classes of tests, of which there are none here
_OF_NONE = {
    "_dj_autoclear_mailbox",
    "_django_clear_site_cache",
    "_django_setup_unittest",
    "_live_server_helper",
}


def leave_out_others(item: pytest.Item) -> None:
    """Take those fixtures from a test that it does not need."""
    if isinstance(item, pytest.Function):
        others = {name for name, mark in _OF_MARKS.items() if item.get_closest_marker(mark) is None}
        item.fixturenames[:] = [name for name in item.fixturenames if name not in others | _OF_NONE]
