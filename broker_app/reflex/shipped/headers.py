"""Headers of messages, set, renamed and removed; a value may contain others."""

from __future__ import annotations

import re
from typing import Final

from broker_app.reflex.api import Verdict, accept
from broker_app.reflex.chain import InBroker
from broker_app.reflex.declaration import Declaration
from broker_app.reflex.shipped.context import Context
from broker_app.reflex.shipped.options import Option, text_map, texts
from broker_app.reflex.subject import MessageSubject, Subject

OPTIONS: Final = (
    Option("set", "headers to set; ${name} stands for the value of another header", text_map),
    Option("rename", "headers to rename, by their present names", text_map),
    Option("remove", "headers to remove", texts),
)
_NAMED: Final = re.compile(r"\$\{([^{}]+)\}")
#: what can be named besides headers
_USER, _SERVICE = "@user", "@service"


def set_headers(declaration: Declaration, context: Context) -> InBroker:
    """Change headers. A header whose value names one that the message does not have is not set."""
    options = declaration.options
    to_set: dict[str, str] = dict(options.get("set", {}))
    renamed: dict[str, str] = dict(options.get("rename", {}))
    removed: list[str] = list(options.get("remove", ()))

    def decide(subject: Subject, trial: bool) -> Verdict:
        assert isinstance(subject, MessageSubject)
        headers = subject.headers
        changes: dict[str, str | None] = {name: None for name in removed if name in headers}
        for former, name in renamed.items():
            if former in headers:
                changes[former] = None
                changes[name] = headers[former]
        facts = {**headers, _USER: subject.user, _SERVICE: subject.address.split("/", 2)[-1]}
        for name, template in to_set.items():
            if all(named in facts for named in _NAMED.findall(template)):
                changes[name] = _NAMED.sub(lambda match: facts[match[1]], template)
        return accept(headers=changes)

    return decide
