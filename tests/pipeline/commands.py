"""Commands of `mom pipeline` in this process, with the Spark of the tests."""

from __future__ import annotations

from typing import Any

import typer

from broker_app.cli.base.invocation import Invocation
from broker_app.cli.base.output import Output
from broker_app.cli.pipelines import commands as pipeline
from tests.support.broker_process import BrokerProcess


def run(broker: BrokerProcess, *words: str, form: str = "json") -> None:
    """Run `mom pipeline …` as the administrator of a broker. Raises Failure."""
    password = broker.password.replace(" ", "%20")
    url = f"http://{broker.user}:{password}@{broker.host}:{broker.port}"
    command: Any = typer.main.get_command(pipeline.app)
    command([*words], standalone_mode=False, obj=Invocation(None, url, None, Output(form)))
