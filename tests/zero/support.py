"""Support for tests: a few settings, read as whole numbers or texts."""

from typing import Any

from broker_app import zero
from broker_app.zero import Loaded, SettingReaders, Texts


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


WORDS = SettingReaders(
    settings={
        "name": _text, "data": _text, "log_level": _text, "port": _number, "stomp_port": _number,
        "credit": _number, "max_body_bytes": _number, "max_store_bytes": _number,
    },
    refused={"admin_password": "passwords stand in no file; set MOM_ADMIN_PASSWORD"},
)  # fmt: skip


def load(text: str, **others: str) -> Loaded:
    """Load a zero.config; `others` are further files by name, a for a.config."""
    files = {"zero.config": text, **{f"{name}.config": other for name, other in others.items()}}
    return zero.load("zero.config", Texts(files), WORDS)


def settings(text: str, **others: str) -> dict[str, Any]:
    """The settings of the node in a zero.config."""
    return {name: setting.value for name, setting in load(text, **others).settings.items()}


def documents(kind: str, text: str, **others: str) -> dict[str, Any]:
    """The documents of a kind in a zero.config."""
    return {key: dict(document.spec) for key, document in load(text, **others).documents[kind].items()}


def faults(text: str, **others: str) -> list[str]:
    """The errors of a zero.config: FILE:LINE:COLUMN and the sentence of each."""
    try:
        load(text, **others)
    except zero.InvalidFiles as bad:
        return [f"{error.file}:{error.line}:{error.column} {error.detail}" for error in bad.errors]
    return []
