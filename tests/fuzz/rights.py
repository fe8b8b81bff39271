"""Rights of the four users of the fuzzers, and what none of them may see."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote

import httpx

from tests.fuzz.stomp_client import OPEN, PRIVATE

PASSWORD = "pw-of-a-test-9"
#: a queue that only the administrator may read, and what is in its messages
SECRET, CANARY = "secret.queue", "what only the administrator may read"
SECRETS = 100
#: the queue of the ledger
LEDGER = "ledger.a"
RULES = {
    "keeper": {"conditions": f"/event/queue == {LEDGER}", "users": ["keeper"]},
    "dora-alone": {"conditions": r"/event/queue =~ dora\..* || /event/topic =~ dora\..*", "users": ["dora"]},
    "open-to-two": {
        "conditions": r"/event/queue =~ open\..* || /event/topic =~ open\..*",
        "users": ["bob", "dora"],
    },
    "open-to-read": {
        "conditions": r"(/event/queue =~ open\..* || /event/topic =~ open\..*) && /event/method == GET",
        "users": ["carl"],
    },
}
#: what an operator gives and takes again
TAKEN = {"conditions": "/event/queue == open.a || /event/topic == open.x", "effect": "deny", "position": 1}
#: what may ever reach each user, by the beginning of its name; temporary destinations are one's own
GETS = {"bob": (OPEN, "t-"), "carl": (OPEN, "t-"), "dora": (OPEN, PRIVATE, "t-"), "eve": ("t-",)}
#: names of durable and shared subscriptions, which those see who may look at their topics
SUBSCRIPTIONS = frozenset("desü")
#: system topics of one destination, whose name follows; and those of which all users see their part
ABOUT = ("$mom.stats.", "$mom.consumer.", "$mom.dead.")
SHARED = tuple(
    f"$mom.{one}" for one in ("stats", "node", "destinations", "failover", "conn.", "dest.", "job.")
)
#: the topics of one's own callbacks, which have its name
OF_CALLBACK = "$mom.callback.{user}-"
USERS = (*GETS, "keeper")
#: beginnings of the names of all queues that anything may have made
KNOWN = ("open.", "dora.", "secret.", "adm.", "ledger.", "t-", "DLQ", "$seed")


def may_get(user: str) -> Callable[[str], bool]:
    """Return a function that is true for the destinations whose messages a user may get."""

    def may(destination: str) -> bool:
        name = destination.split("/", 2)[-1]
        for topic in ABOUT:
            if name.startswith(topic):
                about = unquote(name.removeprefix(topic))
                return about in SUBSCRIPTIONS or about.startswith(GETS[user])
        return name.startswith((*GETS[user], *SHARED, OF_CALLBACK.format(user=user)))

    return may


async def set_up(rest: httpx.AsyncClient) -> None:
    """Make users and rules, and what is secret."""
    for user in USERS:
        await _make(rest, f"/users/{user}", {"password": PASSWORD})
    for position, (name, said) in enumerate(RULES.items(), 10):
        await _make(rest, f"/rules/{name}", {**said, "position": position})
    for queue in (SECRET, "open.a", "open.b"):
        body = CANARY if queue == SECRET else "a" * 100
        messages = [{"body": f"{body} {n}", "headers": {"h": "a" * 1_000}} for n in range(SECRETS)]
        sent = await rest.post(f"/queues/{queue}/messages/batch", json=messages)
        assert sent.status_code == 200, sent.text


async def _make(rest: httpx.AsyncClient, path: str, document: dict[str, object]) -> None:
    made = await rest.put(path, json=document, headers={"if-none-match": "*"})
    assert made.status_code == 201, made.text


async def check_secret(rest: httpx.AsyncClient) -> None:
    """Assert that what is secret is as it was made, and that there are only queues that somebody may make."""
    rows = (await rest.get("/queues", params={"limit": 500})).json()["items"]
    strange = {row["name"] for row in rows if not row["name"].startswith(KNOWN)}
    assert not strange, "made without a right"
    secret = (await rest.get(f"/queues/{SECRET}")).json()
    assert (secret["depth"], secret["unsettled"]) == (SECRETS, 0)
