"""The STOMP connection of the command line: `mom_client`, its errors as failures."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import mom_client
from broker_app.cli.base.contexts import BrokerTarget
from broker_app.cli.base.failures import EMPTY, FAILED, Failure, of_problem, unreachable


@contextlib.asynccontextmanager
async def connect(target: BrokerTarget) -> AsyncIterator[mom_client.Client]:
    """Yield a client that is logged in at `target`. Errors inside the block become Failures, too."""
    where = target.stomp
    with failures(where):
        async with mom_client.connect(where, **login_of(target)) as client:
            yield client


def login_of(target: BrokerTarget) -> dict[str, Any]:
    """The options of a connection to `target`."""
    return {"login": target.login or None, "passcode": target.passcode or None, "tls": target.tls()}


@contextlib.contextmanager
def failures(where: str) -> Iterator[None]:
    """Raise the errors of clients inside the block as Failures."""
    try:
        yield
    except mom_client.Refused as refused:
        raise of_problem(refused.code, refused.detail, where) from refused
    except mom_client.Timeout as timeout:
        raise Failure(EMPTY, str(timeout), where=where) from timeout
    except mom_client.ConnectionLost as lost:
        raise unreachable(where, str(lost)) from lost
    except mom_client.ClientError as error:
        raise Failure(FAILED, str(error), where=where) from error
