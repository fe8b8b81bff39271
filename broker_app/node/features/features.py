"""The list of all features of a node, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from broker_app.net.http.routing import Handlers
from broker_app.node.features.bridges import BridgeFeature
from broker_app.node.features.bulk import BulkFeature
from broker_app.node.features.callback_broker import CallbackBrokerFeature
from broker_app.node.features.callbacks import CallbackFeature
from broker_app.node.features.channels import ChannelFeature
from broker_app.node.features.cluster import ClusterFeature, Membership
from broker_app.node.features.connections import ConnectionFeature
from broker_app.node.features.feature import Feature, NodeParts
from broker_app.node.features.jobs import JobFeature
from broker_app.node.features.journal import JournalFeature
from broker_app.node.features.messages import MessageFeature
from broker_app.node.features.mirrors import MirrorFeature, Shared
from broker_app.node.features.pipelines import PipelineFeature
from broker_app.node.features.reflexes import ReflexFeature
from broker_app.node.features.services import ServiceFeature
from broker_app.peers.http_client.exchange import Poster
from broker_app.reflex.declaration import Declaration
from broker_app.telemetry.component_health import Component
from broker_app.telemetry.metrics.families import Collected
from broker_app.telemetry.pipeline_store import NoPipeline, PipelineStore


class Given(NamedTuple):
    """Things that the caller of a node gives to its features."""

    #: the journal, if it was taken over
    shared: Shared | None = None
    #: None for a broker in no cluster
    membership: Membership | None = None
    #: of the file of reflexes
    reflexes: Sequence[Declaration] = ()
    pipeline: PipelineStore = NoPipeline()
    #: makes what sends the requests of webhooks; by default an HTTP client
    make_poster: Callable[[], Poster] | None = None


class Features:
    """They start in the order of the list, and finish and stop in the reverse one."""

    def __init__(self, parts: NodeParts, given: Given) -> None:
        shared = given.shared
        self.cluster = ClusterFeature(parts, given.membership)
        self.mirrors = MirrorFeature(parts, shared, self.cluster.uris)
        self.reflexes = ReflexFeature(parts, given.reflexes, self.mirrors.mirror)
        self.services = ServiceFeature(parts, self.reflexes.reflexes)
        self.jobs = JobFeature(parts)
        self.bulk = BulkFeature(parts, self.reflexes.reflexes, shared=shared is not None)
        self.bridges = BridgeFeature(parts)
        self.callbacks = CallbackFeature(parts, given.make_poster)
        self.journal = JournalFeature(parts)
        self.channels = ChannelFeature(parts, self.reflexes.reflexes)
        self.list: list[Feature] = [
            self.journal,
            ConnectionFeature(parts),
            MessageFeature(parts, self.bridges, self.cluster),
            self.channels,
            self.mirrors,
            PipelineFeature(parts, given.pipeline),
            # They filter what the features below publish, and finish after these.
            self.reflexes,
            self.services,
            CallbackBrokerFeature(parts),
            self.jobs,
            self.bulk,
            self.bridges,
            self.callbacks,
            # The last: other brokers send messages as soon as they are linked.
            self.cluster,
        ]

    def endpoints(self) -> Handlers:
        """The endpoints of all."""
        return {name: handler for one in self.list for name, handler in one.endpoints().items()}

    def metrics(self) -> Collected:
        """The metrics of all."""
        return chain.from_iterable(one.metrics() for one in self.list)

    def components(self) -> Iterable[Component]:
        """Everything that has a health, of all."""
        return chain.from_iterable(one.components() for one in self.list)
