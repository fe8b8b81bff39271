"""Finds texts that are not marked for translation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from django.template.base import Lexer, TokenType

#: what is the same in every language, besides the content of <code> or below translate="no"
SAME = frozenset(
    """
    ACK API CSV DELETE GET HTTP HTTPS JSON MOM NACK NDJSON OIDC POST PUT REST SSE STOMP TLS URL UTC XML YAML
    WebSocket curl HTTPie Java JavaScript Python mom stomp KiB MiB GiB min ms Ctrl Enter Esc Shift Alt zero
    config Deutsch English nbsp OpenID Connect py
    """.split()
)
_QUIET = frozenset(("code", "kbd", "pre", "samp", "script", "style"))
_READ_ATTRIBUTES = frozenset(("alt", "aria-label", "placeholder", "title", "aria-description"))
_WITHOUT_END = frozenset(("br", "hr", "img", "input", "link", "meta", "source", "wbr", "col"))
_WORD = re.compile(r"[^\W\d_]{2,}")
_SENTENCE = re.compile(r"[A-Z][\w']*,?( [\w',;:{}()./-]+)+[.?!…]?")
_ADDRESS = re.compile(r"(/\S*,?\s*)+")
_FILTERS = re.compile(r"""\|(?:default|default_if_none|yesno|add|join):(?!_\()["']([^"']*)["']""")
_ARGUMENTS = re.compile(r"""\b\w+=["']([A-Z][^"']*)["']""")
_MARKING = frozenset(("_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy"))


class Unmarked(NamedTuple):
    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def in_template(path: Path) -> Iterator[Unmarked]:
    """Text and spoken attributes of a Django template."""
    html = _without_tags(path.read_text(encoding="utf-8"))
    for line, text in _said_in(html):
        yield Unmarked(path, line, text)


def in_islands(path: Path) -> Iterator[Unmarked]:
    """Text and spoken attributes of Lit templates, and sentences that stand in the code unsaid."""
    source = path.read_text(encoding="utf-8")
    for start, html in _templates(source):
        first = source.count("\n", 0, start)
        for line, text in _said_in(html):
            yield Unmarked(path, first + line, text)


def in_python(path: Path) -> Iterator[Unmarked]:
    """Strings that look like sentences, outside of calls that mark them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            silent.add(id(node.value))  # a docstring
        marks = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _MARKING
        if marks or isinstance(node, ast.Raise | ast.Assert):
            silent.update(map(id, ast.walk(node)))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in silent:
            continue
        if _SENTENCE.fullmatch(node.value.strip()):
            yield Unmarked(path, node.lineno, node.value)


class _Reader(HTMLParser):
    """Collects the text of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[tuple[int, str]] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        quiet = tag in _QUIET or ("translate", "no") in attributes or any(one for _, one in self._open)
        if not quiet:
            for name, value in attributes:
                if name in _READ_ATTRIBUTES:
                    self._hear(value or "")
        if tag not in _WITHOUT_END:
            self._open.append((tag, quiet))

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in _WITHOUT_END:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        while any(one == tag for one, _ in self._open):
            if self._open.pop()[0] == tag:
                return

    def handle_data(self, data: str) -> None:
        if not any(quiet for _, quiet in self._open):
            self._hear(data)

    def _hear(self, text: str) -> None:
        if not _ADDRESS.fullmatch(text) and any(word not in SAME for word in _WORD.findall(text)):
            self.texts.append((self.getpos()[0], " ".join(text.split())))


def _said_in(html: str) -> list[tuple[int, str]]:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.texts


def _without_tags(template: str) -> str:
    """The template without what Django does; literals that it would show stay."""
    kept: list[str] = []
    silent = ""
    for token in Lexer(template).tokenize():
        lines = "\n" * token.contents.count("\n")
        word = token.contents.split(None, 1)[0] if token.contents.split() else ""
        if silent:
            silent = "" if token.token_type == TokenType.BLOCK and word == silent else silent
            kept.append(lines)
        elif token.token_type == TokenType.TEXT:
            kept.append(token.contents)
        elif token.token_type == TokenType.VAR:
            kept.append(" ".join(_FILTERS.findall(token.contents)) + lines)
        elif token.token_type == TokenType.BLOCK:
            if word in ("blocktranslate", "comment", "verbatim"):
                silent = f"end{word}"
            if token.contents.endswith("_attributes"):  # of a tag that another template has
                silent = "endblock"
            if word in ("include", "with"):
                kept.append("".join(f"<p>{text}</p>" for text in _ARGUMENTS.findall(token.contents)))
            kept.append(lines)
    return "".join(kept)


def _templates(source: str) -> Iterator[tuple[int, str]]:
    """The beginnings of Lit's templates, and their HTML without expressions; nested ones separately."""
    # A stack of what we are in: the pieces of a template, or None for code in braces within one.
    stack: list[tuple[int, list[str]] | None] = []
    at, end = 0, len(source)
    while at < end:
        here = source[at]
        inside = stack[-1] if stack else None
        if inside is not None:
            if here == "\\":
                at += 1
            elif here == "`":
                stack.pop()
                yield inside[0], "".join(inside[1])
            elif source.startswith("${", at):
                if inside[1] and inside[1][-1] == "=":
                    inside[1].append('""')  # an attribute without quotes has a value, too
                stack.append(None)
                at += 1
            else:
                inside[1].append(here)
        elif here == "`":
            tagged = re.search(r"\b(?:html|svg)$", source[max(0, at - 5) : at])
            stack.append((at, [] if tagged else [_PLAIN]))
        elif here in "\"'":
            closing = re.compile(rf"(?:[^{here}\\\n]|\\.)*").match(source, at + 1)
            at = closing.end() if closing else at
        elif source.startswith("//", at):
            at = source.find("\n", at) - 1
        elif source.startswith("/*", at):
            at = source.find("*/", at) + 1
        elif here == "{" and stack:
            stack.append(None)
        elif here == "}" and stack:
            stack.pop()
        at += 1


#: text in backticks that is no template of a page
_PLAIN = "<code>"
