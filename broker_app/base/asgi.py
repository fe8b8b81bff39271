"""Types of ASGI."""

from collections.abc import Awaitable, Callable
from typing import Any

Scope = dict[str, Any]
Event = dict[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
#: loosely typed, since frameworks differ in the mappings they accept
Application = Callable[[Any, Any, Any], Awaitable[None]]
