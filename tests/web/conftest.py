"""What tests of the site share."""

import pytest

from broker_app.net.guessing import Guesses
from broker_app.web import backends


@pytest.fixture(autouse=True)
def guesses(monkeypatch: pytest.MonkeyPatch) -> Guesses:
    """The wrong passwords of one test alone."""
    fresh = Guesses()
    monkeypatch.setattr(backends, "GUESSES", fresh)
    return fresh
