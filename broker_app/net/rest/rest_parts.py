"""The parts that endpoints share: the client of the engine, waiting requests, limits, and readers and
publishers of messages."""

from __future__ import annotations

from broker_app.engine import Engine
from broker_app.engine.client import EngineClient
from broker_app.net.auth.login import Logins
from broker_app.net.http.limits import RestLimits
from broker_app.net.http.long_poll import WaitingRequests
from broker_app.net.policy.access import Access
from broker_app.net.policy.destination_settings import Destinations
from broker_app.net.policy.policy import Policy
from broker_app.net.rest.destinations.status import QueueEndpoints
from broker_app.net.rest.messages import message_json
from broker_app.net.rest.messages.browse import Browser
from broker_app.net.rest.messages.envelopes import Envelopes
from broker_app.net.rest.messages.publish import RestPublisher
from broker_app.net.rest.messages.receive import Polls
from broker_app.telemetry import Statistics


class RestParts:
    """The parts of one node, made within the running loop. `statistics` are shown with queues."""

    def __init__(
        self, engine: Engine, logins: Logins, access: Access, statistics: Statistics, limits: RestLimits
    ) -> None:
        self.logins = logins
        self.access = access
        self.limits = limits
        self.engine_client = EngineClient(
            engine, "rest", blocked_timeout_ms=round(limits.max_queue_wait_s * 1000), ordered=False
        )
        #: requests that wait for messages or events
        self.waiting = WaitingRequests(limits, access.is_admin)
        self.blocks = message_json.Blocks()
        self.envelopes = Envelopes(limits)
        self.publisher = RestPublisher(self.engine_client, self.envelopes, limits)
        self.browser = Browser(self.engine_client, engine.records, self.blocks, limits)
        self.polls = Polls()
        self.queues = QueueEndpoints(self.engine_client, self.destinations, statistics, limits, self.polls.of)

    def policy(self) -> Policy:
        """The present policy."""
        return self.logins.policy

    def destinations(self) -> Destinations:
        """The settings of destinations."""
        return self.logins.policy.destinations
