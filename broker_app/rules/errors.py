"""Errors of rules, with their positions."""

from __future__ import annotations

#: characters of a condition that are shown on each side of the place that is wrong
_SHOWN = 60


class RuleError(ValueError):
    """A condition, or a set of rules, that cannot be used.

    `line` and `column` count from 1, in the text of the condition; `rule` is the name of the rule where it is
    known. `pointer` is two lines of text: what stands there, and a mark below the place.
    """

    def __init__(self, detail: str, text: str = "", position: int = 0, rule: str = "") -> None:
        before = text[:position]
        self.detail = detail
        self.line = before.count("\n") + 1
        self.column = position - (before.rfind("\n") + 1) + 1
        self.rule = rule
        self.pointer = _pointer(text, self.line, self.column)
        self._text, self._position = text, position
        super().__init__(f"line {self.line} column {self.column}: {detail}")

    def of_rule(self, name: str) -> RuleError:
        """The same error, as one of the rule `name`."""
        return RuleError(self.detail, self._text, self._position, name)


def _pointer(text: str, line: int, column: int) -> str:
    shown = (text.split("\n")[line - 1] if text else "").replace("\t", " ")
    start = max(0, column - 1 - _SHOWN)
    return f"{shown[start : column - 1 + _SHOWN]}\n{' ' * (column - 1 - start)}^"
