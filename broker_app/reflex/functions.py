"""Functions of plug-ins: found in their modules, called in one way, and what they return understood."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import pluggy

from broker_app.reflex.api import ACCEPT, GROUP, Answer, Function, Hooks, Verdict, refuse
from broker_app.reflex.channel_call import ChannelCall, Handled
from broker_app.reflex.declaration import CHANNEL, DEREGISTRATION, SERVICE

Options = Mapping[str, Any]
#: called with a message, registration or call of a channel, and the options
Bound = Callable[[Any, Options], "Verdict | Answer | Handled"]
#: channel, parts, need_response, and the options
_LEAST_OF_CHANNEL, _MOST_OF_CHANNEL = 3, 4
_RETURNED_0 = "it was refused"


class Library:
    """The functions and hooks of a module."""

    def __init__(self, name: str, module: ModuleType | object) -> None:
        self._name = name
        self._plugins = pluggy.PluginManager(GROUP)
        self._plugins.add_hookspecs(Hooks)
        self._plugins.register(module, name)
        offered = self._plugins.hook.mom_functions()
        #: by name
        self.functions: Mapping[str, Function] = offered if offered is not None else _public(module)

    def started(self) -> None:
        """Call the hook."""
        self._plugins.hook.mom_started(library=self._name)

    def stopping(self) -> None:
        """Call the hook."""
        self._plugins.hook.mom_stopping()

    def bind(self, kind: str, function: str) -> Bound:
        """The function, called in the way of a kind of declaration. Raises LookupError, TypeError."""
        if function not in self.functions:
            known = ", ".join(sorted(self.functions)[:20]) or "none"
            raise LookupError(f"library {self._name} has no function {function}; it has {known}")
        return bound(kind, self.functions[function])


def _public(module: ModuleType | object) -> dict[str, Function]:
    """The public functions that a module defines itself."""
    name = getattr(module, "__name__", None)
    return {
        found: value
        for found, value in vars(module).items()
        if not found.startswith("_") and callable(value) and getattr(value, "__module__", None) == name
    }


def bound(kind: str, function: Function) -> Bound:
    """The function, called with as many arguments as it takes. Raises TypeError if it takes others."""
    if kind == CHANNEL:
        return _bound_handler(function)
    most = 3 if kind == SERVICE else 2
    count = _arguments(function, most)
    if kind == SERVICE:
        return _bound_service(function, count)

    def call(subject: Any, options: Options) -> Verdict:
        returned = function(subject) if count == 1 else function(subject, options)
        return ACCEPT if kind == DEREGISTRATION else verdict_of(returned)

    return call


def _bound_service(function: Function, count: int) -> Bound:
    def call(message: Any, options: Options) -> Verdict | Answer:
        answer = Answer()
        arguments = (message, answer, options)[:count]
        returned = function(*arguments)
        if isinstance(returned, bytes | str):
            answer.body = returned if isinstance(returned, bytes) else returned.encode()
        elif returned is not None:
            verdict = verdict_of(returned)
            if not verdict.accepted:
                return verdict
        if answer.body is not None and not isinstance(answer.body, bytes):
            raise TypeError(f"the body of the answer is {answer.body!r:.80}; it must be bytes")
        return answer

    return call


def _bound_handler(function: Function) -> Bound:
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{function!r} is a coroutine function; a handler within the broker is a plain one")
    count = _arguments(function, _MOST_OF_CHANNEL, _LEAST_OF_CHANNEL)

    def call(given: ChannelCall, options: Options) -> Handled:
        arguments = (*given, options)[:count]
        try:
            function(*arguments)
        except Exception as error:  # what it has sent before counts
            return Handled(given.channel, error)
        finally:
            given.channel.end()
        return Handled(given.channel, None)

    return call


def _arguments(function: Function, most: int, least: int = 1) -> int:
    """The number of positional arguments that a function takes, up to `most`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # of a built-in function
        return least
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return most
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = sum(one.default is one.empty for one in positional)
    if len(positional) < least or needed > most:
        raise TypeError(f"{function!r} takes {needed} arguments; it must take {least} to {most}")
    return min(most, len(positional))


def verdict_of(returned: Any) -> Verdict:
    """The verdict that a function returned. Raises TypeError if it is none."""
    if isinstance(returned, Verdict):
        return returned
    if returned is None or returned is True or (returned == 1 and isinstance(returned, int)):
        return ACCEPT
    if returned is False or (returned == 0 and isinstance(returned, int)):
        return refuse(_RETURNED_0)
    raise TypeError(f"it returned {returned!r:.80}; it must return a verdict, True, False, 1, 0 or None")
