"""Meaning: what a tree of values says, by the table of keys. Whatever the table does not have is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from broker_app.zero import keys
from broker_app.zero.errors import Errors, LookedFor
from broker_app.zero.file_reader import File, with_included
from broker_app.zero.keys import KEYS, Key
from broker_app.zero.loaded import Document, Loaded, Said, Words
from broker_app.zero.positions import Place
from broker_app.zero.tree import Again, refuse_again, suggestion
from broker_app.zero.values import Value

#: where the rules of files begin among all rules, and how far they are from each other
FIRST_POSITION, STEP = 1000, 10
#: of the settings of destinations, the one pattern that covers everything
EVERYTHING = ">"

_CREDENTIALS = "bridgeCredentials"
_USER_NAMES = ("user", "userid", "username")


class Meaning:
    """One reading of a tree. What is wrong goes to `errors`."""

    def __init__(
        self,
        words: Words,
        errors: Errors,
        files: Mapping[str, File],
        said: Mapping[str, list[tuple[str, Place]]],
        again: Sequence[Again],
    ) -> None:
        self._words = words
        self._errors = errors
        self._files = files
        #: the keys that each file says itself, and where
        self._said = said
        #: connections of which something was said before
        self._again = again
        self._config_file: str | None = None
        self._looked_for: LookedFor = {}
        self._settings: dict[str, Said] = {}
        self._documents: dict[str, dict[str, Document]] = {kind: {} for kind in keys.KINDS}
        self._of_all: list[tuple[Key, Value]] = []
        self._known = [*KEYS, *(f"{keys.MOM}/{name}" for name in words.settings)]

    def of(self, root: Value, looked_for: LookedFor) -> Loaded:
        """All that is said. `looked_for` are the files that were asked for, whether they are there or not."""
        self._looked_for = looked_for
        for name, value in root.parts.items():
            self._take(f"/{name}", value)
        for key, value in self._of_all:
            self._say_of_all(key, value)
        self._judge_again()
        return Loaded(
            self._settings,
            self._documents,
            self._files,
            looked_for,
            self._errors.sources,
            self._config_file,
            tuple(self._errors.warnings),
        )

    def _take(self, path: str, value: Value) -> None:
        key = KEYS.get(path)
        if key is not None:
            self._use(key, value)
        elif path.startswith(f"{keys.MOM}/"):
            self._setting(path.removeprefix(f"{keys.MOM}/"), path, value)
        elif not any(known.startswith(f"{path}/") for known in self._known):
            self._unknown(path, value)
        elif value.kind == "an object":
            for name, inner in value.parts.items():
                self._take(f"{path}/{name}", inner)
        elif value.is_json:
            self._errors.add(value.place, f"{path} has keys below it; it cannot be {value.kind}")

    def _unknown(self, path: str, value: Value) -> None:
        near = suggestion(path, self._known)
        self._errors.add(value.named or value.place, f"there is no key {path}{near}")

    def _use(self, key: Key, value: Value) -> None:
        match key.use:
            case keys.SETTING:
                self._setting(key.means, key.path, value, key.spelled)
            case keys.DOCUMENTS:
                self._take_documents(key, value)
            case keys.RULE_LIST:
                self._take_rules(key, value)
            case keys.OF_ALL_QUEUES:
                self._of_all.append((key, value))
            case keys.WATCHED_FILE:
                self._check_watched(value)
            case keys.ONE_VALUE:
                if value.is_json and value.content is not key.means:
                    only = json.dumps(key.means)
                    self._errors.add(value.place, f"{key.path} can be nothing but {only}: {key.about}")
            case keys.REFUSED:
                self._errors.add(
                    value.named or value.place, f"{key.path} is not for this broker: {key.about}"
                )

    # ------------------------------------------------------------------ settings of the node

    def _setting(self, name: str, path: str, value: Value, spelled: Mapping[Any, Any] | None = None) -> None:
        read = self._words.settings.get(name)
        if name in self._words.refused:
            return self._errors.add(value.named or value.place, f"{path}: {self._words.refused[name]}")
        if read is None:
            return self._unknown(path, value)
        if not value.is_json:
            return None
        if name in self._settings:
            source = self._settings[name].source
            return self._errors.add(
                value.named or value.place, f"{path}: the setting {name} is already set at {source}"
            )
        plain = value.plain()
        if spelled:
            if not isinstance(plain, bool):
                return self._errors.add(value.place, f"{path} must be true or false")
            plain = spelled[plain]
        elif path == f"{keys.BROKER}/port" and isinstance(plain, int) and plain <= 0:
            detail = (
                f"{path} is {plain}, by which no broker would start; give it a port, or leave the broker out"
            )
            return self._errors.add(value.place, detail)
        try:
            self._settings[name] = Said(read(plain), value.named or value.place)
        except ValueError as error:
            self._errors.add(value.place, f"{path} {error}")
        return None

    # ------------------------------------------------------------------ documents

    def _take_documents(self, key: Key, value: Value) -> None:
        if value.kind != "an object":
            if value.is_json:
                self._errors.add(value.place, f"{key.path} must be an object: {key.about}")
            return
        for name, inner in value.parts.items():
            place = inner.named or inner.place
            if inner.kind != "an object":
                if inner.is_json:
                    self._errors.add(inner.place, f"{key.means} {name} must be an object, not {inner.kind}")
            elif inner.is_whole:
                said: dict[str, Any] = inner.plain()
                secrets: dict[str, Any] = {}
                if key.means == "bridges":
                    said, secrets = self._bridge(inner, said)
                self._documents[key.means][name] = Document(key.means, name, inner, place, said, secrets)

    def _bridge(self, value: Value, said: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """A connection's credentials are its user, and a secret."""
        given = said.pop(_CREDENTIALS, None)
        if given is None:
            return said, {}
        there = value.parts[_CREDENTIALS]
        if not isinstance(given, dict):
            self._errors.add(there.place, f'{_CREDENTIALS} must be an object: {{"user": …, "password": …}}')
            return said, {}
        for name, inner in there.parts.items():
            if name not in (*_USER_NAMES, "password"):
                near = suggestion(name, ("user", "password"))
                self._errors.add(inner.named or inner.place, f"{_CREDENTIALS} has no {name}{near}")
        users = {name: given[name] for name in _USER_NAMES if name in given}
        if len(users) != 1 or "user" in said:
            self._errors.add(there.place, "the user of a connection is named once, in bridgeCredentials")
        secrets = {"password": given["password"]} if "password" in given else {}
        return {**said, "user": next(iter(users.values()), "")}, secrets

    def _take_rules(self, key: Key, value: Value) -> None:
        if value.kind != "an array":
            if value.is_json:
                detail = f"{key.path} must be an array of rules: += adds one, or @include"
                self._errors.add(value.place, detail)
            return
        for inner in value.parts.values():
            if inner.kind != "an object":
                if inner.is_json:
                    self._errors.add(inner.place, f"a rule is an object, not {inner.kind}")
            elif inner.is_whole:
                self._take_rule(inner)

    def _take_rule(self, value: Value) -> None:
        rules = self._documents["rules"]
        said = value.plain()
        if "position" in said:
            place = value.parts["position"].named or value.place
            return self._errors.add(place, "rules of a file are in the order of the file, without positions")
        digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
        name = f"file-{digest[:6]}"
        for length in range(8, len(digest), 2):
            if name not in rules:
                break
            there = rules[name]
            if {**there.said, "position": None} == {**said, "position": None}:
                detail = f"the same rule stands at {there.source} already; this one would never decide"
                return self._errors.add(value.place, detail)
            name = f"file-{digest[:length]}"
        position = FIRST_POSITION + STEP * len(rules)
        rules[name] = Document("rules", name, value, value.place, {**said, "position": position})
        return None

    def _say_of_all(self, key: Key, value: Value) -> None:
        """A setting that holds for every queue: one more of the pattern for everything."""
        documents = self._documents["destinations"]
        if not value.is_json:
            return
        place = value.named or value.place
        there = documents.get(EVERYTHING)
        if there is None:
            whole = Value({key.means: value}, place, place)
            documents[EVERYTHING] = Document(
                "destinations", EVERYTHING, whole, place, {key.means: value.plain()}
            )
        elif key.means in there.said:
            self._errors.add(place, f"{key.path}: {key.means} is already set at {there.source}")
        else:
            whole = Value({**there.value.parts, key.means: value}, there.place, there.place)
            said = {**there.said, key.means: value.plain()}
            documents[EVERYTHING] = Document("destinations", EVERYTHING, whole, there.place, said)

    # ------------------------------------------------------------------ the file of connections

    def _check_watched(self, value: Value) -> None:
        if not isinstance(value.content, str):
            if value.is_json:
                self._errors.add(value.place, f"{keys.BROKER}/configFile must be the path of a file")
            return
        # It is named from the folder of the application, which holds that of the file.
        inner = value.content.partition("/")[2]
        name = next((name for name in (value.content, inner) if name in self._files), None)
        if name is None:
            if value.content in self._looked_for or inner in self._looked_for:
                return  # its @include has told that it is not there
            detail = f"{value.content} is not among the files that were read: it needs an @include, too"
            self._errors.add(value.place, detail)
            return
        self._config_file = name
        for file in with_included(self._files, name):
            for key, place in self._said.get(file, ()):
                if key != keys.CONNECTIONS and not key.startswith(f"{keys.CONNECTIONS}/"):
                    detail = (
                        f"{name} is the configFile: only {keys.CONNECTIONS}/… may be said in it, not {key}"
                    )
                    self._errors.add(place, detail)

    def _judge_again(self) -> None:
        """A connection may be said in the configFile and elsewhere: they are kept by different people."""
        name = self._config_file
        within = with_included(self._files, name) if name is not None else []
        for again in self._again:
            if (again.place.file in within) == (again.first.file in within):
                refuse_again(self._errors, again)
            else:
                self._errors.warn(again.place, f"{again}, which holds; this one does not count")
