"""The reasons why a message is at another broker of a cluster: the question, and the answer of one broker."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

#: characters of the id of a message
MOST_ID: Final = 200
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_ID)]
_Address = Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
#: a fact about a message or a consumer
Fact = str | int | bool | None | dict[str, str | int]


class ReasonsQuestion(msgspec.Struct, array_like=True, frozen=True, kw_only=True, tag=True):
    """Asks for the message with this id in the queue `address`; empty for any queue."""

    id: _Id
    address: str = ""


class MessageReason(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """A `why.Reason` with its times as texts."""

    code: Annotated[str, msgspec.Meta(max_length=100)]
    sentence: str
    facts: Annotated[dict[str, Fact], msgspec.Meta(max_length=100)]


class MessageReasons(msgspec.Struct, array_like=True, kw_only=True):
    """The answer: the queue `address` of the message, its state, and why it is there. `sent_to` and `block`
    are what masks go by, which the broker of the client knows. The `owner` is another broker if the message
    is here for a consumer alone."""

    address: _Address
    state: Annotated[str, msgspec.Meta(max_length=20)]
    sent_to: _Address
    block: bytes
    reasons: Annotated[list[MessageReason], msgspec.Meta(max_length=200)]
    owner: Annotated[str, msgspec.Meta(max_length=200)] = ""
