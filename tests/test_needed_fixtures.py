"""Tests have the fixtures that they need."""

import pytest


def test_a_test_without_a_mark_of_django_has_none_of_the_fixtures_that_are_for_them(
    request: pytest.FixtureRequest,
) -> None:
    for_each_test = [name for name in request.fixturenames if name.startswith(("_dj", "_live", "_template"))]
    assert for_each_test == []


@pytest.mark.django_db
def test_a_test_with_the_mark_of_the_database_has_one() -> None:
    from django.contrib.auth.models import User

    assert not User.objects.filter(username="john").exists()


@pytest.mark.urls("mom_site.urls")
def test_a_test_with_a_mark_has_the_fixture_for_it(request: pytest.FixtureRequest) -> None:
    assert "_django_set_urlconf" in request.fixturenames
