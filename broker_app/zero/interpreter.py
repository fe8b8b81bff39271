"""The interpreter of a tree of values, by the table of keys. Keys that are not in the table are refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from broker_app.base.suggestions import suggestion
from broker_app.zero import keys
from broker_app.zero.errors import Errors, LookedFor
from broker_app.zero.file_reader import File, with_included
from broker_app.zero.keys import KEYS, Key
from broker_app.zero.loaded import Document, Loaded, SettingReaders, SettingValue
from broker_app.zero.positions import Position
from broker_app.zero.tree import Repeat, refuse_repeat
from broker_app.zero.values import Value

#: position of the first rule of files among all rules, and the distance of rules
FIRST_POSITION, STEP = 1000, 10
#: the pattern of destinations that matches everything
EVERYTHING = ">"

_CREDENTIALS = "bridgeCredentials"
_USER_NAMES = ("user", "userid", "username")


class Interpreter:
    """Interprets one tree. Errors are added to `errors`."""

    def __init__(
        self,
        words: SettingReaders,
        errors: Errors,
        files: Mapping[str, File],
        spec: Mapping[str, list[tuple[str, Position]]],
        repeat: Sequence[Repeat],
    ) -> None:
        self._words = words
        self._errors = errors
        self._files = files
        #: the keys that each file sets itself, with their positions
        self._keys_by_file = spec
        #: connections that are configured more than once
        self._repeats = repeat
        self._config_file: str | None = None
        self._looked_for: LookedFor = {}
        self._settings: dict[str, SettingValue] = {}
        self._documents: dict[str, dict[str, Document]] = {kind: {} for kind in keys.KINDS}
        self._of_all: list[tuple[Key, Value]] = []
        self._known = [*KEYS, *(f"{keys.MOM}/{name}" for name in words.settings)]

    def of(self, root: Value, looked_for: LookedFor) -> Loaded:
        """Return all settings and documents. `looked_for` has the files that were tried, existing or not."""
        self._looked_for = looked_for
        for name, value in root.parts.items():
            self._take(f"/{name}", value)
        for key, value in self._of_all:
            self._add_for_all(key, value)
        self._check_repeats()
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
            self._errors.add(
                value.position, f"{path} has keys below it, so it must be an object, not {value.kind}"
            )

    def _unknown(self, path: str, value: Value) -> None:
        near = suggestion(path, self._known)
        self._errors.add(value.named or value.position, f"there is no key {path}{near}")

    def _use(self, key: Key, value: Value) -> None:
        match key.use:
            case keys.SETTING:
                self._setting(key.target, key.path, value, key.converted)
            case keys.DOCUMENTS:
                self._take_documents(key, value)
            case keys.RULE_LIST:
                self._take_rules(key, value)
            case keys.OF_ALL_QUEUES:
                self._of_all.append((key, value))
            case keys.WATCHED_FILE:
                self._check_watched(value)
            case keys.ONE_VALUE:
                if value.is_json and value.content is not key.target:
                    only = json.dumps(key.target)
                    self._errors.add(value.position, f"{key.path} must be {only}: {key.about}")
            case keys.REFUSED:
                self._errors.add(value.named or value.position, f"{key.path} is not supported: {key.about}")

    # ------------------------------------------------------------------ settings of the node

    def _setting(
        self, name: str, path: str, value: Value, converted: Mapping[Any, Any] | None = None
    ) -> None:
        read = self._words.settings.get(name)
        if name in self._words.refused:
            return self._errors.add(value.named or value.position, f"{path}: {self._words.refused[name]}")
        if read is None:
            return self._unknown(path, value)
        if not value.is_json:
            return None
        if name in self._settings:
            source = self._settings[name].source
            return self._errors.add(
                value.named or value.position, f"{path}: the setting {name} is already set at {source}"
            )
        plain = value.plain()
        if converted:
            if not isinstance(plain, bool):
                return self._errors.add(value.position, f"{path} must be true or false")
            plain = converted[plain]
        elif path == f"{keys.BROKER}/port" and isinstance(plain, int) and plain <= 0:
            detail = f"{path} is {plain}, so no broker would start; set a port, or remove the broker"
            return self._errors.add(value.position, detail)
        try:
            self._settings[name] = SettingValue(read(plain), value.named or value.position)
        except ValueError as error:
            self._errors.add(value.position, f"{path} {error}")
        return None

    # ------------------------------------------------------------------ documents

    def _take_documents(self, key: Key, value: Value) -> None:
        if value.kind != "an object":
            if value.is_json:
                self._errors.add(value.position, f"{key.path} must be an object: {key.about}")
            return
        for name, inner in value.parts.items():
            position = inner.named or inner.position
            if inner.kind != "an object":
                if inner.is_json:
                    self._errors.add(
                        inner.position, f"{key.target} {name} must be an object, not {inner.kind}"
                    )
            elif inner.is_whole:
                spec: dict[str, object] = inner.plain()
                secrets: dict[str, object] = {}
                if key.target == "bridges":
                    spec, secrets = self._bridge(inner, spec)
                self._documents[key.target][name] = Document(key.target, name, inner, position, spec, secrets)

    def _bridge(self, value: Value, spec: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """Separate the credentials of a connection into its user and a secret."""
        given = spec.pop(_CREDENTIALS, None)
        if given is None:
            return spec, {}
        there = value.parts[_CREDENTIALS]
        if not isinstance(given, dict):
            self._errors.add(
                there.position, f'{_CREDENTIALS} must be an object: {{"user": …, "password": …}}'
            )
            return spec, {}
        for name, inner in there.parts.items():
            if name not in (*_USER_NAMES, "password"):
                near = suggestion(name, ("user", "password"))
                self._errors.add(inner.named or inner.position, f"{_CREDENTIALS} has no {name}{near}")
        users = {name: given[name] for name in _USER_NAMES if name in given}
        if len(users) != 1 or "user" in spec:
            self._errors.add(there.position, "name the user of a connection once, in bridgeCredentials")
        secrets = {"password": given["password"]} if "password" in given else {}
        return {**spec, "user": next(iter(users.values()), "")}, secrets

    def _take_rules(self, key: Key, value: Value) -> None:
        if value.kind != "an array":
            if value.is_json:
                detail = f"{key.path} must be an array of rules; add one with += or @include"
                self._errors.add(value.position, detail)
            return
        for inner in value.parts.values():
            if inner.kind != "an object":
                if inner.is_json:
                    self._errors.add(inner.position, f"a rule must be an object, not {inner.kind}")
            elif inner.is_whole:
                self._take_rule(inner)

    def _take_rule(self, value: Value) -> None:
        rules = self._documents["rules"]
        spec = value.plain()
        if "position" in spec:
            position = value.parts["position"].named or value.position
            return self._errors.add(
                position, "remove the position: rules of a file have the order of the file"
            )
        digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()
        name = f"file-{digest[:6]}"
        for length in range(8, len(digest), 2):
            if name not in rules:
                break
            there = rules[name]
            if {**there.spec, "position": None} == {**spec, "position": None}:
                detail = f"the same rule is already at {there.source}; this one would never decide"
                return self._errors.add(value.position, detail)
            name = f"file-{digest[:length]}"
        order = FIRST_POSITION + STEP * len(rules)
        rules[name] = Document("rules", name, value, value.position, {**spec, "position": order})
        return None

    def _add_for_all(self, key: Key, value: Value) -> None:
        """Add a setting for all queues to the pattern that matches everything."""
        documents = self._documents["destinations"]
        if not value.is_json:
            return
        position = value.named or value.position
        there = documents.get(EVERYTHING)
        if there is None:
            whole = Value({key.target: value}, position, position)
            documents[EVERYTHING] = Document(
                "destinations", EVERYTHING, whole, position, {key.target: value.plain()}
            )
        elif key.target in there.spec:
            self._errors.add(position, f"{key.path}: {key.target} is already set at {there.source}")
        else:
            whole = Value({**there.value.parts, key.target: value}, there.position, there.position)
            spec = {**there.spec, key.target: value.plain()}
            documents[EVERYTHING] = Document("destinations", EVERYTHING, whole, there.position, spec)

    # ------------------------------------------------------------------ the file of connections

    def _check_watched(self, value: Value) -> None:
        if not isinstance(value.content, str):
            if value.is_json:
                self._errors.add(value.position, f"{keys.BROKER}/configFile must be the path of a file")
            return
        # The path is relative to the directory of the application, the parent of the file's directory.
        inner = value.content.partition("/")[2]
        name = next((name for name in (value.content, inner) if name in self._files), None)
        if name is None:
            if value.content in self._looked_for or inner in self._looked_for:
                return  # the error was reported for its @include
            detail = f"{value.content} was not read: include it with @include as well"
            self._errors.add(value.position, detail)
            return
        self._config_file = name
        for file in with_included(self._files, name):
            for key, position in self._keys_by_file.get(file, ()):
                if key != keys.CONNECTIONS and not key.startswith(f"{keys.CONNECTIONS}/"):
                    detail = (
                        f"{name} is the configFile: only {keys.CONNECTIONS}/… may be set in it, not {key}"
                    )
                    self._errors.add(position, detail)

    def _check_repeats(self) -> None:
        """Allow a connection in the configFile and elsewhere, as different users maintain them."""
        name = self._config_file
        within = with_included(self._files, name) if name is not None else []
        for repeat in self._repeats:
            if (repeat.position.file in within) == (repeat.first.file in within):
                refuse_repeat(self._errors, repeat)
            else:
                self._errors.warn(
                    repeat.position, f"{repeat}, which takes precedence; this one has no effect"
                )
