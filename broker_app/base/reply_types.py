"""Types of the members of replies.

A reply is a `TypedDict`, declared where it is made: mypy checks what reads it, and the OpenAPI document has
its schema (`net.rest.openapi.schemas.of_types`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta

from broker_app.base.states import Family, described


def about(description: str) -> Meta:
    """The meaning of a member."""
    return Meta(description=description)


def state_of(family: Family) -> Meta:
    """The values of a state, with what each means."""
    return Meta(description=described(family), extra_json_schema={"enum": list(family)})


def one_of(values: Iterable[str]) -> Meta:
    """The values of a text."""
    return Meta(extra_json_schema={"enum": list(values)})


Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
Rate = Annotated[float, Meta(ge=0, description="per second")]
Time = Annotated[
    str, Meta(description="RFC 3339, UTC, with milliseconds", extra_json_schema={"format": "date-time"})
]
HttpStatus = Annotated[int, Meta(ge=0, le=999, description="of the answer; 0 without one")]

#: the members of something, of whatever kind, for those that read and send them
Facts = Mapping[str, Any]
