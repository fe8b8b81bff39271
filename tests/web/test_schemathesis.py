"""The description of the control plane against a broker: random requests, right and wrong ones."""

import os
from typing import Any

import pytest
import schemathesis
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks

from broker_app.web import api
from tests.support.broker_process import BrokerProcess
from tests.support.described import check, operations
from tests.support.samples import sample
from tests.support.strangers import ignored_auth

schema = schemathesis.openapi.from_dict(api.document())

CHECKS = (
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
    ignored_auth,
)
#: for each operation; `make fuzz` asks for more
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2"))
OPERATIONS = operations(schema)


@pytest.fixture(scope="module")
def headers(broker: BrokerProcess) -> dict[str, str]:
    """Of an administrator's token: a password would take longer than the request."""
    made = broker.request("POST", "/api/v1/tokens", json_body={"name": "random"})
    return {"Authorization": f"Bearer {made.json()['token']}"}


@pytest.mark.fuzz
@pytest.mark.parametrize("operation", sample(OPERATIONS, len(OPERATIONS) // 3))
def test_every_answer_is_one_that_is_described(
    operation: str, broker: BrokerProcess, headers: dict[str, str]
) -> None:
    def validate(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(base_url=broker.url, headers=headers, checks=list(CHECKS), timeout=30)

    check(schema, operation, validate, EXAMPLES)
