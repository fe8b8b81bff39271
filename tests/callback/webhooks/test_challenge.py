"""Before the first push, a URL has to agree to be called."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import standardwebhooks

from broker_app.features.callbacks.webhooks.signature import new_secret
from tests.callback.webhooks.hooks import SECRET, callback, hooks, until
from tests.callback.webhooks.receiver import answer, receiver


async def test_the_handshake_of_cloudevents_names_the_broker(tmp_path: Path) -> None:
    async with hooks(tmp_path, name="b1") as own, receiver() as there:
        there.on_options = answer(200, webhook_allowed_origin="b1")
        await own.have(callback(there.url))
        await own.state("running")
        (asked,) = there.all
        assert (asked.method, asked.headers["webhook-request-origin"]) == ("OPTIONS", "b1")
        assert ("hook", "verified") in own.events()


async def test_a_receiver_without_options_answers_a_signed_challenge(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.on_options = answer(405)
        await own.have(callback(there.url))
        await own.state("running")
        _, asked = there.all
        assert asked.headers["ce-type"] == "mom.callback.challenge"
        assert standardwebhooks.Webhook(SECRET).verify(asked.body, asked.headers) == asked.json()


async def test_a_receiver_may_answer_with_the_challenge_as_text(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.on_options = answer(404)

        async def echo(request: object, writer: object) -> None:
            text = json.loads(request.body)["challenge"].encode()  # type: ignore[attr-defined]
            await answer(200, text)(request, writer)  # type: ignore[arg-type]

        there.on_challenge = echo
        await own.have(callback(there.url))
        await own.state("running")


async def test_nothing_is_pushed_to_a_receiver_that_does_not_agree(tmp_path: Path) -> None:
    async with hooks(tmp_path) as own, receiver() as there:
        there.on_options = answer(200, webhook_allowed_origin="another.broker")
        there.on_challenge = answer(200, b"welcome")
        await own.have(callback(there.url))
        await own.publish(b"1")
        report = await own.state("unverified")
        assert "to OPTIONS, it answered 200 without WebHook-Allowed-Origin" in report["reason"]
        assert "a POST with a challenge 200 without the challenge" in report["reason"]
        assert (there.received, report["pending"]) == ([], 1)
        assert [event for _, event in own.events()] == ["unverified"]
        # It is asked again at once when an operator wants it.
        there.on_options = answer(204, webhook_allowed_origin="*")
        own.supervisor.push_now("hook")
        await there.count(1)


async def test_a_url_is_challenged_again_only_when_it_or_the_secret_changes(tmp_path: Path) -> None:
    async with receiver() as there:
        hook = callback(there.url)
        async with hooks(tmp_path, hook) as own:
            await own.state("running")
            await own.have(callback(there.url, max_in_flight=2))
            await own.publish(b"1")
            await there.count(1)
            assert [one.method for one in there.all] == ["OPTIONS", "POST"]
        async with hooks(tmp_path, hook) as own:
            await own.publish(b"2")
            await there.count(2)
            assert [one.method for one in there.all] == ["OPTIONS", "POST", "POST"]
            await own.have(replace(hook, secret=new_secret()))
            await own.publish(b"3")
            await there.count(3)
            assert [one.method for one in there.all].count("OPTIONS") == 2


async def test_a_receiver_may_agree_later_at_an_address_that_it_was_given(tmp_path: Path) -> None:
    async with hooks(tmp_path, console_url="https://mom.example.org/console/") as own, receiver() as there:
        there.on_options, there.on_challenge = answer(202), answer(202)
        await own.have(callback(there.url))
        await own.publish(b"1")
        await own.state("unverified")
        address = urlsplit(there.all[0].headers["webhook-request-callback"])
        assert (address.netloc, address.path) == ("mom.example.org", "/api/v1/callbacks/hook/confirm")
        async with own.small.rest("anna") as rest:
            rest.headers.pop("authorization")
            path = address.path.removeprefix("/api/v1")
            assert (await rest.get(f"{path}?token=wrong")).status_code == 404
            assert (await rest.post(f"{path}?{address.query}")).status_code == 204
            await there.count(1)
            assert (await rest.post(f"{path}?{address.query}")).status_code == 404, "it is good once"
        await until(lambda: own.report()["pending"] == 0, own.report)
