"""A name that another make of broker has for a setting, and what it is here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class ForeignName(NamedTuple):
    """One row. `values` are those that are written in another way here. A property that is no setting is
    accepted with the values `accepted`, or any `number`, which say what happens here; `about` says what to do
    for others."""

    name: str
    setting: str = ""
    about: str = ""
    #: whether brokers with different values refuse each other
    must_be_equal: bool = False
    #: whether the central file may have it
    is_central: bool = True
    values: Mapping[str, str] = MappingProxyType({})
    accepted: tuple[str, ...] = ()
    #: whether it is a number from 1, or -1
    number: bool = False

    def value(self, text: str) -> str:
        """The value of the setting; empty if it stays as it is. Raises ValueError."""
        if self.setting:
            return self.values.get(text, text)
        if self.number:
            if text not in ("", "-1") and not (text.isdecimal() and int(text)):
                raise ValueError(f"{self.name} is a whole number from 1, or -1, not {text[:80]!r}")
            return ""
        if not self.accepted:
            raise ValueError(f"{self.name} is no setting here: {self.about}")
        if text and text.lower() not in self.accepted:
            accepted = " or ".join(self.accepted)
            always = "always " if len(self.accepted) == 1 else ""
            raise ValueError(
                f"{self.name} is {always}{accepted} here, and {text!r} is not possible: {self.about}"
            )
        return ""
