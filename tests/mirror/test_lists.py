"""The brokers that a broker names, for clients and for pages."""

import pytest

from tests.support.mirrors import Mirrors, is_followed, login_answer
from tests.support.polling import poll

pytestmark = pytest.mark.process


def test_a_broker_that_has_taken_over_names_itself_first_at_once(mirrors: Mirrors) -> None:
    # The note of the killed broker counts for some seconds more, and comes first by its name.
    main, mirror = mirrors.make(), mirrors.make("--advertised-host", "localhost")
    main.start()
    mirror.start(standby=True)
    poll(lambda: is_followed(main))
    main.kill()
    poll(lambda: login_answer(mirror).startswith(b"CONNECTED"))
    own = f"stomp://localhost:{mirror.stomp_port}"
    listed = login_answer(mirror).decode().partition("\nmom-failover:")[2]
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
