"""The indefinite article of nouns in texts that are made from a table."""

from __future__ import annotations

#: "hour" is spoken as "our"
_VOWELS = ("a", "e", "i", "o", "u", "hour")
#: written with a vowel, spoken with the sound of "you"
_AS_CONSONANTS = ("uni", "url", "use", "usu", "uti", "eu")


def with_article(noun: str) -> str:
    """The noun with its article, by its sound: a user, an alert rule."""
    word = noun.lower()
    vowel = word.startswith(_VOWELS) and not word.startswith(_AS_CONSONANTS)
    return f"{'an' if vowel else 'a'} {noun}"
