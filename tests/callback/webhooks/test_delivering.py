"""Messages of a queue or topic are POSTed to a URL, and settled by its answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import standardwebhooks

from broker_app.features.callbacks.webhooks.signature import new_secret
from broker_app.net.policy.destination_settings import Destinations, Own
from broker_app.rules.rule import Rule
from tests.callback.webhooks.hooks import SECRET, callback, hooks, until
from tests.callback.webhooks.receiver import answer, receiver
from tests.support.patience import patient


async def test_a_message_is_posted_as_a_signed_cloudevent_and_settled_by_2xx(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url))
        await own.publish(
            b'{"id": 7}', content_type="application/json", headers={"type": "order.paid", "tenant": "acme"}
        )
        (push,) = await there.count(1)
        await until(lambda: own.report()["pending"] == 0, own.report)
        assert push.body == b'{"id": 7}'
        assert push.headers["ce-type"] == "order.paid"
        assert push.headers["ce-id"] == push.headers["webhook-id"]
        assert (push.headers["mom-attempt"], push.headers["mom-queue"]) == ("1", "a")
        assert push.headers["mom-header-tenant"] == "acme"
        assert standardwebhooks.Webhook(SECRET).verify(push.body, push.headers) == {"id": 7}
        assert own.report()["pushes"]["accepted"] == 1


async def test_a_refused_message_is_pushed_again_under_the_same_id_with_its_attempt(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        answers = [answer(500, b"no database"), answer(404), answer(302, location="http://x/")]

        async def fail_three_times(request: object, writer: asyncio.StreamWriter) -> None:
            behave = answers.pop(0) if answers else answer(204)
            await behave(request, writer)  # type: ignore[arg-type]

        there.behavior = fail_three_times
        await own.have(callback(there.url))
        await own.publish(b"1")
        pushes = await there.count(4)
        assert len({push.headers["webhook-id"] for push in pushes}) == 1
        assert [push.headers["mom-attempt"] for push in pushes] == ["1", "2", "3", "4"]
        await until(lambda: own.report()["pending"] == 0, own.report)
        log = own.supervisor.pushes_of("hook")
        assert log is not None
        assert [push["outcome"] for push in log] == ["accepted", "refused", "refused", "failed"]
        assert log[3]["detail"] == "it answered 500: no database"
        assert "a redirect to 'http://x/', which is not followed" in log[1]["detail"]


async def test_a_callback_whose_pushes_always_fail_is_failing_everywhere_and_raises_an_alert(
    tmp_path: Path,
) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.behavior = answer(500, b"no database")
        await own.have(callback(there.url))
        await own.publish(b"1")
        await there.count(3)
        async with own.small.rest("boss") as rest:

            async def firing() -> list[str]:
                alerts = (await rest.get("/alerts")).json()["items"]
                return [one["detail"] for one in alerts if one["condition"] == "failing"]

            while not (alerts := await firing()):
                await asyncio.sleep(0.5)  # they are evaluated every five seconds
            assert alerts == ["Callback hook is failing: it answered 500: no database"]
            (shown,) = (await rest.get("/webhooks")).json()["items"]
            assert (shown["state"], shown["health"]) == ("running", "failing")
            metrics = (await rest.get("/metrics")).text
            assert 'mom_component_health{health="failing",kind="callback",name="hook"} 1.0' in metrics
            assert 'mom_component_health{health="running",kind="store",name="journal"} 1.0' in metrics
            assert 'mom_alerts_firing{rule="failing",severity="critical"} 1.0' in metrics
            detailed = (await rest.get("/metrics/detailed?family=callback")).text
            assert 'mom_callback_accepted_total{callback="hook"} 0.0' in detailed
            there.behavior = answer(204)
            own.supervisor.push_now("hook")
            await until(lambda: own.report()["pending"] == 0, own.report)
            (shown,) = (await rest.get("/webhooks")).json()["items"]
            assert (shown["failures_in_row"], shown["health"]) == (0, "running")


async def test_a_message_that_is_refused_too_often_becomes_a_dead_letter_with_the_last_answer(
    tmp_path: Path,
) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.small.change(destinations=Destinations({"/queue/a": Own({"max_attempts": 3}, 1)}))
        there.special[b"bad"] = answer(422, b'{"error": "no such\n customer"}')
        await own.have(callback(there.url))
        await own.publish(b"good", b"bad", b"fine")
        await until(lambda: own.small.depth("a.dead") == 1, own.report)
        async with own.small.rest("boss") as rest:
            (dead,) = (await rest.get("/queues/a.dead/messages")).json()["items"]
        assert dead["headers"]["dead-reason"] == "MAX_ATTEMPTS"
        assert dead["headers"]["dead-detail"] == (
            'delivered 3 times; the last time: it answered 422: {"error": "no such customer"}'
        )
        assert sorted(there.bodies) == [b"bad"] * 3 + [b"fine", b"good"]


async def test_at_most_max_in_flight_pushes_have_no_answer(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        gate = asyncio.Event()

        async def wait(request: object, writer: asyncio.StreamWriter) -> None:
            await gate.wait()
            await answer(200)(request, writer)  # type: ignore[arg-type]

        there.behavior = wait
        await own.have(callback(there.url, max_in_flight=3))
        await own.publish(*[b"%d" % number for number in range(10)])
        await there.count(3)
        assert own.report()["in_flight"] == 3
        gate.set()
        await there.count(10)
        await until(lambda: own.report()["pending"] == 0, own.report)
        assert len(there.received) == 10


async def test_retry_after_delays_the_message_and_all_pushes_to_its_host(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.special[b"1"] = answer(429, retry_after="1")
        await own.have(callback(there.url, max_in_flight=1), callback(there.url, "other", queue="b"))
        await own.state("running", "other")
        await own.publish(b"1")
        await there.count(1)
        began = asyncio.get_running_loop().time()
        await until(lambda: own.report("other")["breaker"]["until"], own.report)
        breaker = own.report("other")["breaker"]
        assert (breaker["state"], breaker["pause"]) == ("closed", "retry-after")
        del there.special[b"1"]
        await own.publish(b"2", to="/queue/b")
        await there.count(3)
        assert asyncio.get_running_loop().time() - began > 0.8
        breaker = own.report()["breaker"]
        assert (breaker["state"], breaker["pause"], breaker["until"]) == ("closed", "", None)


async def test_retry_after_of_a_failure_delays_its_message_only(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.special[b"1"] = answer(500, retry_after="1")
        await own.have(callback(there.url, max_in_flight=2))
        await own.publish(b"1")
        await there.count(1)
        began = asyncio.get_running_loop().time()
        del there.special[b"1"]
        await own.publish(b"2")
        await there.count(3)
        assert [one.body for one in there.received] == [b"1", b"2", b"1"]
        assert asyncio.get_running_loop().time() - began > 0.8


async def test_410_ends_the_callback_and_leaves_its_messages_in_the_queue(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.behavior = answer(410, b"unsubscribed")
        await own.have(callback(there.url))
        await own.publish(b"1")
        report = await own.state("ended")
        assert report["reason"] == "it answered 410: unsubscribed"
        await own.publish(b"2")
        await until(lambda: own.small.depth("a") == 2, own.report)
        assert ("hook", "ended") in own.events()
    async with hooks(tmp_path, callback(there.url)) as own, receiver() as again:
        # It is still ended after a restart, until it has another address, or an operator starts it again.
        await own.state("ended")
        await own.have(callback(again.url))
        await again.count(2)


async def test_an_ended_callback_is_started_again_by_push_now(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.behavior = answer(410)
        await own.have(callback(there.url))
        await own.publish(b"1")
        await own.state("ended")
        there.behavior = answer(200)
        assert own.supervisor.push_now("hook")
        await there.count(2)
        await until(lambda: own.report()["pending"] == 0, own.report)


async def test_push_now_ends_the_wait_for_the_next_attempt(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.behavior = answer(500)
        await own.have(
            callback(there.url, retry_s=600.0, max_retry_s=600.0),
            callback(there.url, "notes", queue="b", mode="notify", retry_s=600.0, max_retry_s=600.0),
        )
        await own.publish(b"1")
        await own.publish(b"2", to="/queue/b")
        await there.count(2)
        there.behavior = answer(200)
        for name in ("hook", "notes"):
            await until(lambda name=name: own.report(name)["last"], own.report)  # type: ignore[misc]
            own.supervisor.push_now(name)
        await there.count(4)


async def test_a_paused_callback_takes_nothing_until_it_runs(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url, desired="paused"))
        await own.publish(b"1")
        assert (await own.state("paused"))["pending"] == 1
        await own.have(callback(there.url))
        await there.count(1)
        await own.have(callback(there.url, desired="paused"))
        await own.state("paused")
        assert there.bodies == [b"1"]


async def test_a_selector_chooses_the_messages(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url, selector="color = 'red'"))
        await own.publish(b"1", headers={"color": "blue"})
        await own.publish(b"2", headers={"color": "red"})
        await there.count(1)
        await until(lambda: own.report()["pending"] == 1, own.report)
        assert there.bodies == [b"2"]


async def test_a_changed_configuration_applies_to_the_next_push(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there, receiver() as elsewhere:
        await own.have(callback(there.url))
        await own.publish(b"1")
        await there.count(1)
        await own.have(callback(elsewhere.url, headers=(("x-team", "shop"),), authorization="Bearer s3cret"))
        await own.publish(b"2")
        (push,) = await elsewhere.count(1)
        assert push.headers["x-team"] == "shop"
        assert push.headers["authorization"] == "Bearer s3cret"
        await own.have(callback(elsewhere.url, queue="b"))
        await own.publish(b"3", to="/queue/b")
        await elsewhere.count(2)
        await own.publish(b"4")
        await until(lambda: own.small.depth("a") == 1, own.report)
        assert there.bodies == [b"1"]


async def test_both_secrets_sign_while_the_former_one_is_valid(tmp_path: Path) -> None:
    former = new_secret()
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url, former_secret=former, former_until=4e9))
        await own.publish(b'"1"')
        (push,) = await there.count(1)
        for secret in (SECRET, former):
            assert standardwebhooks.Webhook(secret).verify(push.body, push.headers) == "1"
        await own.have(callback(there.url, former_secret=former, former_until=1.0))
        await own.publish(b'"2"')
        push = (await there.count(2))[1]
        assert " " not in push.headers["webhook-signature"]


async def test_a_topic_is_consumed_by_a_subscription_that_lives_as_long_as_the_callback(
    tmp_path: Path,
) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        named = own.node.broker.destinations.named
        await own.have(callback(there.url, topic="prices.>"))
        await own.state("running")
        await own.publish(b"1", to="/topic/prices.eu")
        (push,) = await there.count(1)
        assert push.headers["ce-subject"] == "topic/prices.eu"
        assert push.headers["mom-topic"] == "prices.>"
        # While it is paused, messages wait for it.
        await own.have(callback(there.url, topic="prices.>", desired="paused"))
        await own.state("paused")
        await own.publish(b"2", b"3", to="/topic/prices.eu")
        await until(lambda: own.report()["pending"] == 2, own.report)
        await own.have(callback(there.url, topic="prices.>"))
        await there.count(3)
        await until(lambda: own.report()["pending"] == 0, own.report)
        await own.have()
        await until(lambda: not named, lambda: named)


async def test_subscriptions_of_callbacks_that_were_deleted_meanwhile_are_deleted_at_the_start(
    tmp_path: Path,
) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url, topic="prices", desired="paused"))
        await own.state("paused")
        await own.publish(b"1", to="/topic/prices")
    async with hooks(tmp_path) as own:
        await until(lambda: not own.node.broker.destinations.named)
        assert ("hook", "subscription deleted") in own.events()


async def test_another_topic_begins_another_subscription(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url, topic="one", desired="paused"))
        await own.state("paused")
        await own.publish(b"1", to="/topic/one")
        await until(lambda: own.report()["pending"] == 1, own.report)
        await own.have(callback(there.url, topic="two"))
        await own.state("running")
        await own.publish(b"2", to="/topic/two")
        await own.publish(b"3", to="/topic/one")
        await there.count(1)
        assert there.bodies == [b"2"]
        assert ("hook", "subscription replaced") in own.events()


async def test_large_messages_are_pushed_one_after_the_other(tmp_path: Path) -> None:
    body = b"x" * (5 * 1024 * 1024)
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url, max_in_flight=10))
        await own.publish(*[body] * 6)
        await there.count(6)
        await until(lambda: own.report()["pending"] == 0, own.report)


async def test_a_message_that_came_as_a_cloudevent_leaves_as_the_same_one(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there, own.small.rest("anna") as rest:
        await own.have(callback(there.url))
        attributes = {
            "ce-id": "A-1",
            "ce-source": "/shop",
            "ce-type": "paid",
            "ce-specversion": "1.0",
            "ce-tenant": "ümlaut",
        }
        sent = {name.encode(): value.encode() for name, value in attributes.items()}
        reply = await rest.post("/queues/a/messages", content=b"{}", headers=sent)
        assert reply.status_code == 201
        (push,) = await there.count(1)
        assert {name: push.headers[name] for name in ("ce-id", "ce-source", "ce-type", "ce-specversion")} == {
            "ce-id": "A-1", "ce-source": "/shop", "ce-type": "paid", "ce-specversion": "1.0",
        }  # fmt: skip
        assert push.headers["ce-tenant"] == "%C3%BCmlaut"
        assert push.headers["webhook-id"] == reply.json()["id"]


async def test_structured_events_have_their_data_in_json(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url, content="structured"))
        await own.publish(b'{"id": 7}', content_type="application/json")
        await own.publish(b"\xff\x00", content_type="application/octet-stream")
        pushes = await there.count(2)
        found = sorted((push.json() for push in pushes), key=lambda event: "data" in event)
        assert pushes[0].headers["content-type"] == "application/cloudevents+json"
        assert found[1]["data"] == {"id": 7}
        assert found[0]["data_base64"] == "/wA="
        for push in pushes:
            standardwebhooks.Webhook(SECRET).verify(push.body, push.headers)


async def test_a_header_of_a_message_cannot_add_a_header_to_the_request(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url))
        await own.publish(
            b"1", headers={"note": "a\r\nx-admin: yes", "bad name": "b", "type": "t\nx-other: 1"}
        )
        (push,) = await there.count(1)
        assert push.headers["mom-header-note"] == "a  x-admin: yes"
        assert "x-admin" not in push.headers
        assert push.headers["ce-type"] == "t%0Ax-other:%201"


async def test_the_owner_who_loses_the_right_suspends_the_callback(tmp_path: Path) -> None:
    everything = Rule("all", "allow", "", (), ())
    async with hooks(tmp_path) as own, receiver() as there:
        await own.have(callback(there.url))
        await own.publish(b"1")
        await there.count(1)
        await own.small.rule(
            Rule("no", "deny", "/event/queue == a && /event/method == GET", (), ()), everything
        )
        report = await own.state("suspended")
        assert report["reason"] == "anna may not receive from queue a"
        await own.publish(b"2")
        await until(lambda: own.small.depth("a") == 1, own.report)
        await own.small.rule(everything)
        await there.count(2)
        assert ("hook", "suspended") in own.events()
        await own.small.change(users={})
        assert "anna is no user" in (await own.state("suspended"))["reason"]


async def test_callbacks_that_are_removed_leave_their_messages_to_others(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.behavior = answer(500)
        await own.have(callback(there.url, retry_s=0.01, max_retry_s=0.01))
        await own.publish(b"1")
        await there.count(1)
        await own.have()
        async with (
            own.stomp() as client,
            asyncio.timeout(patient(10)),
            client.subscribe("/queue/a") as messages,
        ):
            async for message in messages:
                assert message.body == b"1"
                await message.ack()
                break
        assert own.supervisor.report_of("hook") is None
