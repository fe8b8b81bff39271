"""Articles of nouns."""

import pytest

from broker_app.base.articles import with_article


@pytest.mark.parametrize(
    "words",
    [
        "a user",
        "a queue",
        "a rule",
        "a URL",
        "a unit",
        "an alert rule",
        "an origin",
        "an hour",
        "an unsettled message",
    ],
)
def test_the_article_of_a_noun_follows_its_sound(words: str) -> None:
    assert with_article(words.split(" ", 1)[1]) == words
