"""Sentences that the broker writes, in the language of the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from django.utils.translation import gettext as translated

from broker_app.base.causes import CAUSES
from broker_app.base.events import DECLARED
from broker_app.telemetry.event_log import LoggedEvent

#: a value in a sentence: its name, without its form
_FIELD = re.compile(r"\{(\w+)[^{}]*\}")


def cause_in_words(text: str) -> str:
    """A cause of trouble; one that is not known stays as it is."""
    return _in_words(text, CAUSES)


def detail_in_words(event: LoggedEvent) -> str:
    """The detail of an event of the event log, which is its own sentence or a cause."""
    own = (one.sentence for one in DECLARED if (one.kind, one.name) == (event.kind, event.event))
    return _in_words(event.detail, (*(sentence for sentence in own if sentence != "{detail}"), *CAUSES))


def _in_words(text: str, sentences: Iterable[str]) -> str:
    for sentence in sentences if text else ():
        found = _pattern(sentence).fullmatch(text)
        if found is not None:
            return _filled(translated(sentence), found.groupdict())
    return text


def _filled(sentence: str, values: Mapping[str, str]) -> str:
    """The sentence with these values, which are causes themselves or stay as they are."""
    return _FIELD.sub(lambda field: cause_in_words(values[field[1]]), sentence)


@cache
def _pattern(sentence: str) -> re.Pattern[str]:
    """The texts that a sentence makes."""
    parts = _FIELD.split(sentence)
    texts = (f"(?P<{part}>.*?)" if at % 2 else re.escape(part) for at, part in enumerate(parts))
    return re.compile("".join(texts), re.DOTALL)
