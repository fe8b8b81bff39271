"""Causes of trouble that are known, as sentences with their values in braces. The broker writes them in
English, and the console in the language of the page.

Of two that match a text the first one counts.
"""

from __future__ import annotations

from typing import Final

from broker_app.base.marked import mark as _

#: all sentences
CAUSES: Final[list[str]] = []


def _cause(sentence: str) -> str:
    CAUSES.append(sentence)
    return sentence


#: of a bridge that is not connected
NO_ANSWER = _cause(_("no answer in time"))
NOT_LISTENING = _cause(_("no broker listens at this address"))
UNKNOWN_HOST = _cause(_("the host name is not known: {why}"))
UNTRUSTED_BROKER = _cause(
    _("the certificate of the remote broker is not trusted by {authorities}: {why}"),
)
#: of a push to a receiver
REDIRECTED = _cause(_("it answered {status}, a redirect to {address}, which is not followed"))
ANSWERED_TEXT = _cause(_("it answered {status}: {text}"))
ANSWERED = _cause(_("it answered {status}"))
INCOMPLETE = _cause(_("there was no complete answer within {seconds} s"))
NOT_ACCEPTED = _cause(_("it did not accept a connection within {seconds} s"))
UNRESOLVED_HOST = _cause(_("the host name cannot be resolved: {why}"))
UNTRUSTED = _cause(_("its certificate is not trusted: {why}"))
TLS_FAILED = _cause(_("TLS failed: {why}"))
UNCONNECTED = _cause(_("it accepts no connection: {why}"))
UNANSWERED = _cause(_("it closed the connection before it had answered: {why}"))
BROKER_STOPPED = _cause(_("the broker stopped before there was an answer"))
