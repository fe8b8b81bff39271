"""Pages of configured things: who may see them, what they change, and what they say when it cannot be."""

import json
import re
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import AsyncClient, Client

from broker_app.models import AuditEntry, Rule
from broker_app.rules.event import Event
from broker_app.rules.rule import Rule as Compiled
from broker_app.rules.ruleset import Rules
from broker_app.web import actions, history
from broker_app.web.actions import SYSTEM, Edit, apply
from broker_app.web.console.conditions import conditions_of
from broker_app.web.kinds import KINDS

pytestmark = pytest.mark.django_db

ADMINISTRATORS_PAGES = (
    [
        f"/console/{place}"
        for kind in ("rules", "users", "groups", "brokers", "bridges")
        for place in (f"{kind}/", f"{kind}/add")
    ]
    + [
        f"/console/configuration/{place}"
        for place in ("", "files", "versions/", "comparison", "definitions", "definitions.json", "back")
    ]
    + ["/console/rules/denials", "/console/audit/", "/console/audit/export"]
)


@pytest.fixture
def admin() -> User:
    actions.ensure_admin("administrator")
    return User.objects.get(username="admin")


@pytest.fixture
def inside(client: Client, admin: User) -> Client:
    client.force_login(admin)
    return client


@pytest.fixture
def john(admin: User) -> User:
    return actions.create_user(SYSTEM, "john", "a password of john")


def sent(client: Client, address: str, deed: str = "save", **fields: Any) -> str:
    """What the page says after a form was sent, and after it led elsewhere."""
    reply = client.post(address, {"deed": deed, **fields}, follow=True)
    assert reply.status_code == 200
    return reply.content.decode()


def a_rule(**said: Any) -> dict[str, Any]:
    return {"effect": "allow", "conditions": "", "users": "", "groups": "", "position": "10", **said}


@pytest.mark.parametrize("address", ADMINISTRATORS_PAGES)
def test_pages_of_the_configuration_are_for_administrators(client: Client, john: User, address: str) -> None:
    assert client.get(address).headers["Location"] == f"/login/?next={address}"
    client.force_login(john)
    reply = client.get(address)
    assert reply.status_code == 403
    assert "This page is for administrators" in reply.content.decode()
    assert client.post(address, {"name": "x"}).status_code == 403


def test_the_way_around_leads_only_where_one_may_go(client: Client, inside: Client, john: User) -> None:
    assert "/console/users/" in inside.get("/console/").content.decode()
    client.force_login(john)
    assert "/console/users/" not in client.get("/console/").content.decode()


@pytest.mark.parametrize(
    "address", [page for page in ADMINISTRATORS_PAGES if not page.endswith(("/back", "/export"))]
)
def test_every_page_can_be_drawn_with_nothing_configured(inside: Client, address: str) -> None:
    assert inside.get(address).status_code == 200


def test_without_rules_the_page_says_that_everybody_may_do_everything(inside: Client) -> None:
    said = "everybody who is logged in may do everything"
    assert said in inside.get("/console/rules/").content.decode()
    apply(SYSTEM, [Edit("rules", "first", {})])
    assert said not in inside.get("/console/rules/").content.decode()


def test_a_rule_is_tried_and_then_saved_with_its_reason(inside: Client) -> None:
    fields = a_rule(name="billing", conditions="/event/queue == orders", users="john\r\n\r\n jane ")
    page = sent(inside, "/console/rules/add", "preview", **fields)
    assert "nothing is saved yet" in page and "john, jane" in page
    assert not Rule.objects.exists()
    page = sent(inside, "/console/rules/add", **fields, reason="they pay")
    assert "Rule billing was created." in page
    assert KINDS["rules"].read()["billing"]["users"] == ["john", "jane"]
    assert "they pay" in inside.get("/console/rules/edit?name=billing").content.decode()


def test_a_condition_that_cannot_be_read_is_shown_with_its_place(inside: Client) -> None:
    page = sent(inside, "/console/rules/add", **a_rule(name="x", conditions="/event/queu == a"))
    assert "line 1 column 1" in page and "did you mean /event/queue" in page
    assert not Rule.objects.exists()


def test_a_name_that_is_taken_is_said_beside_the_name(inside: Client) -> None:
    apply(SYSTEM, [Edit("rules", "first", {})])
    assert "there is a rule first already" in sent(inside, "/console/rules/add", **a_rule(name="first"))


def test_who_was_faster_is_named_and_both_sayings_are_shown(inside: Client) -> None:
    version = apply(SYSTEM, [Edit("rules", "first", {"comment": "one"})]).version
    apply(actions.By("mary", actions.API, reason="in a hurry"), [Edit("rules", "first", {"comment": "two"})])
    fields = a_rule(comment="three", version=str(version))
    page = sent(inside, "/console/rules/edit?name=first", **fields)
    assert "mary changed this while you were editing" in page and "in a hurry" in page
    assert "two" in page and "three" in page
    assert KINDS["rules"].read()["first"]["comment"] == "two"
    newest = actions.version_of("rules", "first")
    assert f'name="version" value="{newest}"' in page
    sent(inside, "/console/rules/edit?name=first", **{**fields, "version": str(newest)})
    assert KINDS["rules"].read()["first"]["comment"] == "three"


def test_what_a_file_says_is_shown_with_its_place_and_not_changed(inside: Client) -> None:
    apply(SYSTEM, [Edit("rules", "filed", {}, origin="zero.config:31")])
    page = inside.get("/console/rules/edit?name=filed").content.decode()
    assert "Said in zero.config:31" in page and 'value="save"' not in page
    page = sent(inside, "/console/rules/edit?name=filed", **a_rule(version="1", comment="x"))
    assert KINDS["rules"].read()["filed"]["comment"] == ""
    assert "zero.config:31" in inside.get("/console/rules/remove?name=filed").content.decode()


def test_a_rule_moves_past_its_neighbour_wherever_they_stand(inside: Client) -> None:
    for name, position in (("a", 10), ("b", 10), ("c", 11)):
        apply(SYSTEM, [Edit("rules", name, {"position": position})])
    for name, deed, order in (
        ("c", "up", "acb"),
        ("c", "up", "cab"),
        ("c", "up", "cab"),
        ("a", "down", "cba"),
    ):
        sent(inside, f"/console/rules/move?name={name}", deed)
        assert "".join(KINDS["rules"].read()) == order


def test_a_user_is_made_with_groups_and_a_password_that_is_never_shown(inside: Client) -> None:
    apply(SYSTEM, [Edit("groups", "ops", {})])
    password = "a long and secret one"
    fields: dict[str, Any] = {
        "name": "john",
        "active": "on",
        "groups": ["ops"],
        "email": "john@example.org",
        "password": password,
    }
    page = sent(inside, "/console/users/add", "preview", **fields)
    assert password not in page and "never shown" in page
    page = sent(inside, "/console/users/add", **fields)
    assert "User john was created." in page and password not in page
    assert User.objects.get(username="john").check_password(password)
    assert KINDS["users"].read()["john"]["groups"] == ["ops"]


def test_a_password_that_will_not_do_is_said_beside_it(inside: Client) -> None:
    page = sent(inside, "/console/users/add", name="john", active="on", password="1234")
    assert 'id="id_password_error"' in page
    assert not User.objects.filter(username="john").exists()


def test_the_last_administrator_stays(inside: Client) -> None:
    page = sent(inside, "/console/users/edit?name=admin", active="on", version="1")
    assert "no active administrator would be left" in page
    assert (
        "no active administrator would be left"
        in inside.get("/console/users/remove?name=admin").content.decode()
    )
    assert User.objects.get(username="admin").is_superuser


def test_a_group_is_edited_by_its_members(inside: Client, john: User) -> None:
    assert "there is no user jon; did you mean john?" in sent(
        inside, "/console/groups/add", name="ops", members="jon"
    )
    assert "Group ops was created." in sent(inside, "/console/groups/add", name="ops", members="john\nadmin")
    assert KINDS["users"].read(["john"])["john"]["groups"] == ["ops"]
    version = str(actions.version_of("groups", "ops"))
    sent(inside, "/console/groups/edit?name=ops", members="admin", version=version)
    assert KINDS["users"].read(["john"])["john"]["groups"] == []
    assert "users are in this group: admin" in inside.get("/console/groups/remove?name=ops").content.decode()


def test_what_goes_with_a_user_is_shown_before(inside: Client, john: User) -> None:
    actions.create_token(SYSTEM, john, "laptop")
    page = inside.get("/console/users/remove?name=john").content.decode()
    assert "2 things go together" in page and "john/laptop" in page
    sent(inside, "/console/users/remove?name=john", reason="gone fishing")
    assert not User.objects.filter(username="john").exists()


def test_in_production_the_name_is_typed_before_something_is_removed(inside: Client, john: User) -> None:
    apply(SYSTEM, [Edit("brokers", "mom", {"environment": "Production"})])
    page = sent(inside, "/console/users/remove?name=john", typed="jon")
    assert "type the name" in page and "Production" in page
    assert User.objects.filter(username="john").exists()
    sent(inside, "/console/users/remove?name=john", typed="john")
    assert not User.objects.filter(username="john").exists()


def test_settings_of_a_broker_are_a_field_each(inside: Client) -> None:
    fields = {
        "name": "mom",
        "endpoints": "stomp://one:61613",
        "setting_max_attempts": "0",
        "setting_credit": "50",
    }
    page = sent(inside, "/console/brokers/add", **fields)
    assert 'id="id_setting_max_attempts_error"' in page
    sent(inside, "/console/brokers/add", **{**fields, "setting_max_attempts": "3"})
    assert KINDS["brokers"].read()["mom"]["settings"] == {"max_attempts": 3, "credit": 50}


def test_the_password_of_a_bridge_is_taken_and_not_told(inside: Client) -> None:
    fields = {
        "name": "plant", "hostname": "p7", "port": "61613", "protocol": "stomp", "user": "b1", "retry_s": "5",
        "idle_s": "60", "scan_s": "30", "park_after": "0",
    }  # fmt: skip
    page = sent(inside, "/console/bridges/add", **fields, password="of the bridge")
    assert "Bridge plant was created." in page
    page = inside.get("/console/bridges/edit?name=plant").content.decode()
    assert "of the bridge" not in page
    version = str(actions.version_of("bridges", "plant"))
    page = sent(inside, "/console/bridges/edit?name=plant", **{**fields, "port": "0"}, version=version)
    assert "must be between 1 and 65535" in page


@pytest.mark.parametrize("kind", ["rules", "users", "groups", "brokers", "bridges"])
@pytest.mark.parametrize("name", ["", "not-there", "\0", "x" * 5000, "ü/../%2e"])
def test_a_name_that_is_not_there_is_not_found(inside: Client, kind: str, name: str) -> None:
    assert inside.get(f"/console/{kind}/edit", {"name": name}).status_code == 404
    assert inside.post(f"/console/{kind}/remove?name=nothing").status_code == 404


@pytest.mark.parametrize("kind", ["rules", "users", "groups", "brokers", "bridges"])
def test_an_empty_form_is_told_what_it_lacks(inside: Client, kind: str) -> None:
    page = sent(inside, f"/console/{kind}/add")
    assert "Nothing was saved." in page and 'id="id_name_error"' in page


def test_forms_without_their_secret_are_refused(admin: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin)
    assert strict.post("/console/rules/add", a_rule(name="x")).status_code == 403
    assert not Rule.objects.exists()


def test_a_change_is_undone_by_the_button_that_comes_with_the_news(inside: Client) -> None:
    page = sent(inside, "/console/rules/add", **a_rule(name="first"))
    version = actions.version_of("rules", "first")
    assert (
        f'name="version" value="{version}"' in page and f"/console/configuration/versions/{version}" in page
    )
    page = sent(inside, "/console/configuration/undo", version=str(version))
    assert f"Version {version} was undone." in page
    assert not Rule.objects.exists()


def test_what_others_have_built_upon_is_not_undone_without_showing_it(inside: Client) -> None:
    version = apply(SYSTEM, [Edit("rules", "first", {})]).version
    apply(SYSTEM, [Edit("rules", "second", {})])
    page = sent(inside, "/console/configuration/undo", version=str(version))
    assert "Other changes came after it" in page and "second" in page
    assert Rule.objects.count() == 2


def test_going_back_shows_what_it_does_and_then_does_it(inside: Client, john: User) -> None:
    before = history.newest()
    apply(SYSTEM, [Edit("rules", "first", {"comment": "a comment"})])
    set_password = Edit(
        "users", "john", KINDS["users"].read(["john"])["john"], secrets={"password": "another one!"}
    )
    apply(SYSTEM, [set_password])
    page = inside.get(f"/console/configuration/back?to={before}").content.decode()
    assert "a comment" in page and "its password stays as it is now" in page
    expected = str(history.newest() - 1)
    page = sent(inside, f"/console/configuration/back?to={before}", expected=expected)
    assert "Something was changed meanwhile" in page and Rule.objects.exists()
    page = sent(
        inside, f"/console/configuration/back?to={before}", expected=str(history.newest()), reason="oh no"
    )
    assert f"as it was in version {before}" in page and "oh no" in page
    assert not Rule.objects.exists()


def test_versions_are_listed_shown_and_compared(inside: Client) -> None:
    old = history.newest()
    apply(actions.By("mary", actions.CLI, reason="for tests"), [Edit("rules", "first", {"comment": "one"})])
    apply(SYSTEM, [Edit("rules", "first", {"comment": "two"})])
    page = inside.get("/console/configuration/versions/").content.decode()
    assert "mary" in page and "for tests" in page and "created rules/first" in page
    assert "one" in inside.get(f"/console/configuration/versions/{old + 1}").content.decode()
    page = inside.get(f"/console/configuration/comparison?old={old}&new={old + 2}").content.decode()
    assert "two" in page and "one" not in page.partition("<h1>")[2].partition("STOMP")[0].replace("none", "")
    assert (
        "there is no version"
        in inside.get("/console/configuration/comparison?new=99999").content.decode().lower()
    )
    assert inside.get("/console/configuration/versions/99999").status_code == 404
    assert inside.get("/console/configuration/back?to=99999").status_code == 404
    assert inside.post("/console/configuration/undo", {"version": "99999"}).status_code == 404


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


def test_a_token_is_shown_once_with_lines_to_copy(client: Client, john: User) -> None:
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
    assert KINDS["tokens"].read()["john/laptop"]["grants"] == grants
    assert "send, browse on /queue/orders.new" in client.get("/console/tokens/").content.decode()
    assert "1 to 100 grants" in sent(client, "/console/tokens/add", **a_token(name="none", limited="yes"))


def test_tokens_of_others_are_shown_to_administrators_alone(client: Client, admin: User, john: User) -> None:
    actions.create_token(SYSTEM, admin, "of the admin")
    actions.create_token(SYSTEM, john, "of john")
    client.force_login(john)
    assert "of the admin" not in client.get("/console/tokens/?of=everybody").content.decode()
    assert client.get("/console/tokens/remove?name=admin/of the admin").status_code == 403
    assert client.post("/console/tokens/remove?name=admin/of the admin").status_code == 403
    page = sent(client, "/console/tokens/remove?name=john/of john")
    assert "Token john/of john was removed." in page and "Undo" not in page
    client.force_login(admin)
    assert "of the admin" in client.get("/console/tokens/?of=everybody").content.decode()


def test_a_rule_is_explained_and_each_one_before_it(inside: Client, john: User) -> None:
    apply(SYSTEM, [Edit("rules", "orders", {"conditions": "/event/queue == orders", "users": ["mary"]})])
    apply(SYSTEM, [Edit("rules", "all-mine", {"users": ["john"]})])
    apply(SYSTEM, [Edit("rules", "never-asked", {})])
    asked = {"user": "john", "deed": "send", "destination": "queue:orders"}
    page = inside.get("/console/explain", asked).content.decode()
    assert "Allowed" in page and "rule 2 (all-mine)" in page
    assert "it is about mary, and john is none of them" in page and "1 more rule comes after it" in page
    page = inside.get(
        "/console/explain", {**asked, "user": "stranger", "destination": "topic:a"}
    ).content.decode()
    assert "there is no user of this name" in page and "never-asked" in page
    page = inside.get("/console/explain", {**asked, "user": "admin"}).content.decode()
    assert "admin is an administrator, who may do everything" in page
    page = inside.get(
        "/console/explain", {**asked, "destination": "nowhere", "address": "12"}
    ).content.decode()
    assert 'id="id_destination_error"' in page and 'id="id_address_error"' in page


def test_everybody_may_ask_about_himself_alone(client: Client, john: User) -> None:
    for place, name in enumerate(("mary", "john")):
        apply(SYSTEM, [Edit("rules", f"{name}s", {"users": [name], "position": place})])
    client.force_login(john)
    asked = {"user": "mary", "deed": "send", "destination": "storeAndForward:broker2/queue/q"}
    page = client.get("/console/explain", asked).content.decode()
    assert "john" in page and "rule 2 (johns)" in page
    assert "it is about others" in page and "it is about mary" not in page


def test_without_a_node_the_page_of_denials_says_so(inside: Client) -> None:
    assert "serves pages beside a broker" in inside.get("/console/rules/denials").content.decode()


@pytest.mark.parametrize(
    ("name", "quoted"),
    [("orders.new", "orders.new"), ('a "b\\', '"a \\"b\\\\"'), ("a b", '"a b"'), ("(x)", '"(x)"')],
)
def test_conditions_out_of_an_event_hold_for_it(name: str, quoted: str) -> None:
    event = Event("john", method="POST", queue=name)
    conditions = conditions_of(event)
    assert conditions == f"/event/queue == {quoted} && /event/method == POST"
    assert Rules([Compiled("r", conditions=conditions)]).decide(event).allowed


def entries(client: Client, **filters: str) -> str:
    return client.get("/console/audit/", filters).content.decode().partition("<tbody>")[2]


def test_the_audit_log_is_filtered_by_its_address(inside: Client, john: User) -> None:
    apply(actions.By("mary", actions.CLI, "10.1.2.3", reason="in a hurry"), [Edit("rules", "first", {})])
    page = inside.get("/console/audit/").content.decode()
    assert "chain verified" in page and "mary" in page and "10.1.2.3" in page
    assert "rules/first" in entries(inside, author="mary") and "users/john" not in entries(
        inside, author="mary"
    )
    assert "users/john" in entries(inside, kind="users", key="OH") and "rules/" not in entries(
        inside, kind="users"
    )
    assert "first" in entries(inside, words="hurry") and "first" not in entries(inside, until="2001-01-01")
    assert "first" in entries(inside, since="2001-01-01", before="99999")
    assert "No entry matches" in inside.get("/console/audit/?author=nobody").content.decode()
    assert inside.get("/console/audit/?since=yesterday&kind=x&before=x").status_code == 200


def test_an_entry_that_was_changed_breaks_the_chain_for_everybody_to_see(inside: Client) -> None:
    AuditEntry.objects.filter(number=1).update(author="somebody else")
    assert "chain broken at entry 1" in inside.get("/console/audit/").content.decode()


def test_each_setting_is_shown_with_its_source(inside: Client) -> None:
    apply(SYSTEM, [Edit("brokers", "mom", {"settings": {"max_attempts": 3}})])
    page = inside.get("/console/configuration/", {"filter": "max_attempts"}).content.decode()
    assert "broker mom" in page and "<b>3</b>" in page and "1 of " in page
    page = inside.get("/console/configuration/").content.decode()
    assert "admin_password" in page and "needs a restart" in page
    page = inside.get("/console/configuration/", {"chosen": "on"}).content.decode()
    assert "MOM_DATA" in page and "heartbeat_ms" not in page
    assert "No setting matches" in inside.get("/console/configuration/?filter=xyz").content.decode()


def uploaded(client: Client, content: str, **fields: str) -> str:
    file = SimpleUploadedFile("definitions", content.encode())
    reply = client.post("/console/configuration/definitions", {"file": file, "deed": "plan", **fields})
    return reply.content.decode()


def test_definitions_are_planned_before_they_are_applied(inside: Client, john: User) -> None:
    document = "mom_definitions: 1\nrules:\n  first:\n    comment: of the file\n"
    page = uploaded(inside, document)
    assert "<b>1</b> created" in page and "of the file" in page and not Rule.objects.exists()
    expected = str(history.newest())
    fields = {"document": document, "expected": expected, "reason": "from the file"}
    page = sent(inside, "/console/configuration/definitions", "apply", **{**fields, "expected": "0"})
    assert "Something was changed meanwhile" in page and not Rule.objects.exists()
    page = sent(inside, "/console/configuration/definitions", "apply", **fields)
    assert "1 thing changed" in page and "from the file" in page
    assert KINDS["rules"].read()["first"]["comment"] == "of the file"
    assert "nothing was changed" in sent(
        inside, "/console/configuration/definitions", "apply", **{**fields, "expected": str(history.newest())}
    )
    page = uploaded(inside, '{"mom_definitions": 1, "rules": {}}', prune="on")
    assert "<b>1</b> removed" in page


def test_what_is_wrong_with_definitions_is_said_with_its_place(inside: Client) -> None:
    page = uploaded(inside, '{"mom_definitions": 1, "rules": {"x": {"conditions": "/event/nothing == 1"}}}')
    assert "/rules/x/conditions" in page
    assert "line 1" in uploaded(inside, "{nonsense")
    assert "choose a file" in uploaded(inside, " ")
    assert "longer than" in uploaded(inside, "#" * 1_000_000)
    apply(SYSTEM, [Edit("rules", "filed", {}, origin="zero.config:3")])
    document = '{"mom_definitions": 1, "rules": {"filed": {"comment": "otherwise"}}}'
    assert "rules/filed is said in zero.config:3" in uploaded(inside, document)
    page = sent(inside, "/console/configuration/definitions", "apply", document=document)
    assert "zero.config:3" in page and KINDS["rules"].read()["filed"]["comment"] == ""


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_definitions_can_be_taken_away_and_brought_back(inside: Client, form: str) -> None:
    apply(SYSTEM, [Edit("rules", "first", {"comment": "kept"})])
    reply = inside.get(f"/console/configuration/definitions.{form}")
    assert f'.{form}"' in reply["Content-Disposition"] and b"kept" in reply.content
    assert "<b>0</b> created" in uploaded(inside, reply.content.decode())


@pytest.mark.django_db(transaction=True)
async def test_the_audit_log_is_downloaded_as_it_is_filtered() -> None:
    await sync_to_async(actions.ensure_admin)("administrator")
    await sync_to_async(apply)(SYSTEM, [Edit("rules", "first", {}), Edit("groups", "ops", {})])
    client = AsyncClient()
    await client.aforce_login(await User.objects.aget(username="admin"))
    reply = await client.get("/console/audit/export?kind=rules")
    assert reply["Content-Type"] == "application/x-ndjson" and ".ndjson" in reply["Content-Disposition"]
    [line] = [json.loads(part) async for part in reply.streaming_content]  # type: ignore[attr-defined]
    assert (line["kind"], line["name"], line["act"]) == ("rules", "first", "created")
    reply = await client.get("/console/audit/export?kind=nothing")
    assert reply["Location"] == "/console/audit/?kind=nothing"
