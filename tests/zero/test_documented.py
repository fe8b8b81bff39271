"""The worked example of docs/configuration.md is read as it stands."""

import re
from pathlib import Path

from broker_app import config, zero

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_worked_example_is_read_as_it_stands() -> None:
    main, brokers = re.findall(r"```config\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    files = zero.Texts({"zero.config": main, "brokers.config": brokers})
    found = zero.load("zero.config", files, config.words(Path("/srv/plant7")))
    assert {name: said.value for name, said in found.settings.items()} == {
        "name": "plant7", "stomp_port": 61613, "data": Path("/srv/plant7/store"),
        "max_body_bytes": 16 * 1024 * 1024, "allowed_hosts": ("plant7.example",),
    }  # fmt: skip
    assert {kind: len(documents) for kind, documents in found.documents.items()} == {
        "bridges": 1, "rules": 2, "destinations": 3, "users": 1, "groups": 1, "brokers": 0, "alerts": 0,
        "callbacks": 0, "reflexes": 0, "masks": 0,
    }  # fmt: skip
    assert found.documents["users"]["john"].spec["email"] == "john@plant7.example"
    assert list(found.documents["destinations"]) == ["/queue/orders.>", "/queue/orders.urgent", ">"]


def test_every_key_of_the_table_is_documented() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for path in zero.KEYS:
        assert path.rpartition("/")[2] in page
