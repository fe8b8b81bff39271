"""The brokers that a broker names, for clients and for pages."""

import socket

import pytest

from mom_client.stomp.encode import encode
from mom_client.stomp.frame import CONNECT, DISCONNECT
from tests.support.broker_process import BrokerProcess
from tests.support.mirrors import Mirrors, is_followed
from tests.support.polling import poll

pytestmark = pytest.mark.process


def logged_in(broker: BrokerProcess) -> str:
    """The answer to a login."""
    login = {"accept-version": "1.2", "host": "/", "login": broker.user, "passcode": broker.password}
    with socket.create_connection((broker.host, broker.stomp_port), 10) as connection:
        connection.sendall(encode(CONNECT, login, b"") + encode(DISCONNECT, {"receipt": "end"}, b""))
        found = b""
        while data := connection.recv(4096):
            found += data
    return found.decode()


def test_a_broker_that_has_taken_over_names_itself_first_at_once(mirrors: Mirrors) -> None:
    # The note of the killed broker counts for some seconds more, and comes first by its name.
    main, mirror = mirrors.make(), mirrors.make("--advertised-host", "localhost")
    main.start()
    mirror.start(standby=True)
    poll(lambda: is_followed(main))
    main.kill()
    poll(lambda: logged_in(mirror).startswith("CONNECTED"))
    own = f"stomp://localhost:{mirror.stomp_port}"
    listed = logged_in(mirror).partition("\nmom-failover:")[2]
    assert listed.replace("\\c", ":").startswith(f"{own},")
    found = mirror.request("GET", "/failover-list").json()
    assert found["active"].startswith(f"{own},")
    assert found["uris"][0] == own


def test_a_page_may_ask_all_brokers_of_its_name_which_serves(mirrors: Mirrors) -> None:
    main, mirror = mirrors.make(), mirrors.make("--advertised-host", "localhost")
    main.start()
    mirror.start(standby=True)
    poll(lambda: is_followed(main))
    policy = main.request("GET", "/login/").headers["content-security-policy"]
    connect = next(part for part in policy.split("; ") if part.startswith("connect-src"))
    assert connect == f"connect-src 'self' {main.url} http://localhost:{mirror.port}"
    reply = mirror.request("GET", "/failover-list", authorization="", origin=main.url)
    assert (reply.status, reply.headers["access-control-allow-origin"]) == (200, "*")
