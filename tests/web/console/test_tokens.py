"""Pages of tokens."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from broker_app.web import actions
from broker_app.web.actions import SYSTEM
from broker_app.web.resource_types import RESOURCE_TYPES
from tests.web.console.forms import sent

pytestmark = pytest.mark.django_db


def a_token(**fields: Any) -> dict[str, Any]:
    return {
        "name": "laptop",
        "expires": "30",
        "grants": "1",
        **fields,
    }


def secret_on(page: str) -> str:
    found = re.search(r'<pre id="secret"[^>]*>(mom_[^<]+)<', page)
    assert found
    return found[1]


def test_a_token_is_shown_once_with_example_code(client: Client, john: User) -> None:
    client.force_login(john)
    reply = client.post("/console/tokens/add", {**a_token(), "reason": "for the train"})
    assert "no-store" in reply["Cache-Control"]
    page = reply.content.decode()
    secret = secret_on(page)
    assert f"Bearer {secret}" in page and f"passcode:{secret}" in page
    with_token = Client(headers={"Authorization": f"Bearer {secret}"})
    assert with_token.get("/api/v1/tokens").status_code == 200
    page = client.get("/console/tokens/").content.decode()
    assert "laptop" in page and secret not in page and "all of john" in page
    assert "You have a token named laptop already" in sent(client, "/console/tokens/add", **a_token())


def test_a_token_may_have_fewer_rights_than_its_owner(client: Client, john: User) -> None:
    client.force_login(john)
    limits = {
        "limited": "yes",
        "grant0-rights": ["send", "browse"],
        "grant0-destinations": "/queue/orders.new",
    }
    page = sent(client, "/console/tokens/add", "more", **a_token(**limits))
    assert "Grant 2" in page and "/queue/orders.new" in page
    more = {"grants": "3", "grant2-rights": ["receive"], "grant2-destinations": "nowhere"}
    page = sent(client, "/console/tokens/add", **a_token(**limits, **more))
    assert 'id="id_grant2-destinations_error"' in page
    page = sent(client, "/console/tokens/add", **a_token(**limits))
    assert "/queues/orders.new/messages" in page
    grants = [{"rights": ["send", "browse"], "destinations": ["/queue/orders.new"]}]
    assert RESOURCE_TYPES["tokens"].read()["john/laptop"]["grants"] == grants
    assert "send, browse on /queue/orders.new" in client.get("/console/tokens/").content.decode()
    assert "1 to 100 grants" in sent(client, "/console/tokens/add", **a_token(name="none", limited="yes"))


def test_only_administrators_see_tokens_of_others(client: Client, admin: User, john: User) -> None:
    actions.create_token(SYSTEM, admin, "of the admin")
    actions.create_token(SYSTEM, john, "of john")
    client.force_login(john)
    assert "of the admin" not in client.get("/console/tokens/?of=all").content.decode()
    assert client.get("/console/tokens/remove?name=admin/of the admin").status_code == 403
    assert client.post("/console/tokens/remove?name=admin/of the admin").status_code == 403
    page = sent(client, "/console/tokens/remove?name=john/of john")
    assert "Token john/of john was removed." in page and "Undo" not in page
    client.force_login(admin)
    assert "of the admin" in client.get("/console/tokens/?of=all").content.decode()
