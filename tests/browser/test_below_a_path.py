"""The whole console and the API below /x/y/, behind Debian's nginx."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenPage, sign_in, wait_live
from tests.support.broker_process import BrokerProcess
from tests.support.children import Child
from tests.support.missing import missing
from tests.support.patience import patient
from tests.support.polling import poll
from tests.support.ports import reserve_port

pytestmark = pytest.mark.process

BASE = "/x/y"
# As docs/console.md shows it; what is around it keeps nginx within the folder of the test.
CONFIGURATION = """
daemon off; pid nginx.pid; error_log stderr warn; user root; worker_processes 1;
events {{ worker_connections 256; }}
http {{
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  map $http_upgrade $connection_upgrade {{ default upgrade; "" close; }}
  server {{
    listen 127.0.0.1:{port};
    location {location} {{
      proxy_pass http://127.0.0.1:{broker};
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_upgrade;
      proxy_buffering off;
      proxy_read_timeout 1h;
    }}
  }}
}}
"""


class Proxied(BrokerProcess):
    """A broker that the tests reach by way of nginx, below BASE."""

    way = 0

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.way}{BASE}" if self.way else super().url


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        missing("the console below a path needs Debian's package nginx-light")
    folder = tmp_path_factory.mktemp("below")
    process = Proxied(folder / "data", environment={"MOM_CONSOLE_URL": f"http://127.0.0.1{BASE}"})
    process.start()
    port = reserve_port()
    text = CONFIGURATION.format(port=port, location=f"{BASE}/", broker=process.port)
    (folder / "nginx.conf").write_text(text)
    log = (folder / "nginx.log").open("wb")
    nginx = Child([program, "-p", str(folder), "-c", "nginx.conf"], stdout=log, stderr=log)
    try:
        process.way = port
        poll(lambda: listens(port), deadline_s=10)
        yield process
    finally:
        nginx.terminate()
        nginx.wait(patient(10))
        log.close()
        process.kill()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_the_console_is_live_and_all_its_addresses_are_below_the_path(
    open_page: OpenPage, broker: Proxied
) -> None:
    strayed: list[str] = []
    page = open_page(broker, f"{BASE}/console/", sign_in(broker))
    page.on("request", lambda request: strayed.append(request.url))
    page.on("websocket", lambda socket: strayed.append(socket.url))
    page.reload()
    wait_live(page)
    assert broker.request("POST", "/api/v1/queues/below.the.path/messages", b"hello").status == 201
    page.goto(f"{BASE}/console/queues/")
    page.locator("main").get_by_role("link", name="below.the.path").first.click()
    expect(page).to_have_url(re.compile(re.escape(f"{broker.url}/console/queues/one")))
    expect(page.get_by_role("heading", level=1)).to_contain_text("below.the.path")
    for place in ("rules/", "users/add", "tokens/", "configuration/versions/"):
        page.goto(f"{BASE}/console/{place}")
        links = page.locator("a[href^='/'], form[action^='/'], link[href^='/'], script[src^='/']")
        addresses = links.evaluate_all(
            "all => all.map((one) => new URL(one.href || one.src || one.action).pathname)"
        )
        assert addresses and all(address.startswith(f"{BASE}/") for address in addresses)
    assert strayed and all(urlsplit(url).path.startswith(f"{BASE}/") for url in strayed)
    assert any(urlsplit(url).path == f"{BASE}/ws" for url in strayed)
    cookies = {cookie["name"]: cookie["path"] for cookie in page.context.cookies()}  # type: ignore[typeddict-item]
    assert set(cookies.values()) == {f"{BASE}/"} and {"mom_session", "mom_csrf"} <= set(cookies)

    page.goto(f"{BASE}/console/groups/add")
    page.get_by_label("Name of the group").fill("office")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="office", exact=True)).to_be_visible()
    described = httpx.get(f"{broker.url}/docs/", auth=(broker.user, broker.password), trust_env=False).text
    addresses = re.findall(r'(?:href|src)="(/[^"]*)"', described)
    assert addresses and all(address.startswith(f"{BASE}/") for address in addresses)


def test_api_addresses_are_below_the_path(broker: Proxied) -> None:
    login = httpx.BasicAuth(broker.user, broker.password)
    with httpx.Client(base_url=broker.url, auth=login, trust_env=False) as client:
        assert client.get("/").headers["location"] == f"{BASE}/console/"
        sent = client.post("/api/v1/queues/jobs.of/messages", content=b"x")
        assert client.get(f"http://{broker.host}:{broker.way}{sent.headers['location']}").status_code == 200
        unknown = client.get("/api/v1/queues/there.is.none")
        about = unknown.json()["type"]
        assert about.startswith(f"{BASE}/docs/problems/")
        assert client.get(f"http://{broker.host}:{broker.way}{about}").status_code == 200
        document = client.get("/api/v1/openapi.json").json()
        assert document["servers"] == [{"url": BASE}] and "/api/v1/queues" in document["paths"]
        made = client.put("/api/v1/groups/people", json={})
        assert made.status_code == 201
        with client.stream("GET", "/api/v1/queues/jobs.of/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert any("data:" in line for line in stream.iter_lines())


def test_a_proxy_may_strip_the_path(broker: Proxied) -> None:
    plain = http.client.HTTPConnection(broker.host, broker.port, timeout=10)
    plain.request("GET", "/login/", headers={"Host": "localhost"})
    page = plain.getresponse()
    assert page.status == 200 and f'href="{BASE}/static/' in page.read().decode()
    plain.request("GET", "/api/v1/queues/none")
    assert json.loads(plain.getresponse().read())["type"].startswith(f"{BASE}/docs/")
    plain.close()
