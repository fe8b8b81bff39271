"""ASGI in types: what web servers and applications hand each other."""

from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]
Event = dict[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
#: loosely, since frameworks differ in which mappings they take
Application = Callable[[Any, Any, Any], Awaitable[None]]
