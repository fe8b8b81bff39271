"""A webhook reaches public addresses only, unless the administrator lists others."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_app.peers.http_client.address_filter import AddressFilter
from broker_app.peers.http_client.client import HttpClient
from broker_app.peers.http_client.exchange import HttpRequest, Unanswered
from tests.callback.webhooks.hooks import callback, hooks
from tests.callback.webhooks.receiver import answer, receiver

PRIVATE = """
    127.0.0.1 127.8.9.1 0.0.0.0 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1
    192.0.0.8 192.0.2.1 198.18.0.1 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.250 240.0.0.1
    255.255.255.255
    :: ::1 fe80::1 fe80::1%eth0 fc00::1 fd12:3456::1 ff02::1 fec0::1 2001:db8::1 2001::1 2002:7f00:1::1
    ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:a9fe:a9fe ::127.0.0.1 64:ff9b::7f00:1 64:ff9b::10.0.0.1
    64:ff9b:1::1 100::1 5f00::1 3fff::1
""".split()
OF_CLOUDS = """
    168.63.129.16 ::ffff:168.63.129.16 64:ff9b::a83f:8110 161.26.0.10 166.9.1.1 100.100.100.200 fd00:ec2::254
"""
PUBLIC = "8.8.8.8 1.1.1.1 172.32.0.1 2606:4700::1111 2a00:1450:4001:80b::200e ::ffff:8.8.8.8 64:ff9b::808:808"


@pytest.mark.parametrize("address", PRIVATE)
def test_special_addresses_are_refused(address: str) -> None:
    assert "is not public" in AddressFilter().refusal("hooks.example.org", address)


@pytest.mark.parametrize("address", OF_CLOUDS.split())
def test_addresses_of_agents_and_services_within_clouds_are_refused(address: str) -> None:
    assert "is not public" in AddressFilter().refusal("hooks.example.org", address)


@pytest.mark.parametrize("address", PUBLIC.split())
def test_public_addresses_are_not(address: str) -> None:
    assert AddressFilter().refusal("hooks.example.org", address) == ""


def test_networks_and_hosts_that_are_listed_may_be_called() -> None:
    allowed = AddressFilter(["10.0.0.0/8", "fd00::/8", "127.0.0.1", "hooks.internal"])
    assert allowed.refusal("a.example.org", "10.2.3.4") == ""
    assert allowed.refusal("a.example.org", "::ffff:10.2.3.4") == ""
    assert allowed.refusal("a.example.org", "fd12::1") == ""
    assert allowed.refusal("Hooks.Internal.", "192.168.1.1") == ""
    assert allowed.refusal("a.example.org", "127.0.0.2")
    assert allowed.refusal("hooks.internal.example.org", "192.168.1.1")


def test_an_entry_that_is_neither_network_nor_host_is_named() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0\.0/99"):
        AddressFilter(["10.0.0.0/99"])


class Names:
    """Answers each question with the next of `answers`, the last one for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def close(self) -> None:
        """Nothing is open."""


async def refusal_of(url: str, names: Names | None = None, *allowed: str) -> str:
    client = HttpClient(AddressFilter(allowed), names)
    try:
        with pytest.raises(Unanswered) as failed:
            await client.send(HttpRequest("POST", url, (), b"{}", 2.0))
    finally:
        await client.close()
    return f"{failed.value.code}: {failed.value.detail}"


@pytest.mark.parametrize(
    "host",
    "127.0.0.1 [::1] [::ffff:127.0.0.1] localhost 127.1 2130706433 0x7f.1 0177.0.0.1 127.0.0.1. 127。0。0。1"
    "".split(),
)
async def test_this_machine_cannot_be_reached_however_its_address_is_written(host: str) -> None:
    async with receiver() as there:
        found = await refusal_of(f"http://{host}:{there.port}/hook")
        assert found.startswith(("ADDRESS:", "DNS:", "PROTOCOL:")), found
        assert not there.connections


async def test_a_name_with_one_private_address_among_public_ones_is_refused() -> None:
    async with receiver() as there:
        found = await refusal_of(f"http://a.example.org:{there.port}/", Names(["8.8.8.8", "127.0.0.1"]))
        assert "the address 127.0.0.1 of a.example.org is not public" in found
        assert not there.connections


async def test_a_name_that_changes_after_it_was_checked_is_checked_again() -> None:
    """DNS rebinding: the connection goes to the address that was checked, and each one is checked."""
    async with receiver() as there:
        there.behavior = answer(200, connection="close")
        names = Names(["127.0.0.1"], ["10.0.0.1"])
        client = HttpClient(AddressFilter(["127.0.0.1"]), names)
        try:
            url = f"http://a.example.org:{there.port}/hook"
            await client.send(HttpRequest("POST", url, (), b"{}", 2.0))
            with pytest.raises(Unanswered, match=r"10\.0\.0\.1 of a\.example\.org is not public"):
                await client.send(HttpRequest("POST", url, (), b"{}", 2.0))
        finally:
            await client.close()
        assert (names.asked, len(there.received)) == (2, 1)


async def test_a_callback_to_a_private_address_says_how_to_allow_it(tmp_path: Path) -> None:
    async with hooks(tmp_path, webhook_allow=()) as own, receiver() as there:
        await own.have(callback(there.url))
        report = await own.state("unverified")
        assert report["reason"] == (
            "the address 127.0.0.1 is not public; if it may be called, list it in the setting webhook_allow "
            "(MOM_WEBHOOK_ALLOW)"
        )
        assert not there.connections
