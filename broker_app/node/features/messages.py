"""Messages and destinations over REST."""

from __future__ import annotations

from broker_app.core.destination import QUEUE, TOPIC
from broker_app.net.http.routing import Handlers
from broker_app.net.rest.destinations.consumers import ConsumerEndpoints
from broker_app.net.rest.destinations.digest import DigestEndpoint
from broker_app.net.rest.destinations.stats import StatsEndpoints
from broker_app.net.rest.destinations.status import TopicEndpoints
from broker_app.net.rest.destinations.subscriptions import SubscriptionEndpoints
from broker_app.net.rest.destinations.tree import Tree
from broker_app.net.rest.messages.arrival_stream import ArrivalStream
from broker_app.net.rest.messages.batch import BatchPublisher
from broker_app.net.rest.messages.chosen import ChosenMessages
from broker_app.net.rest.messages.histories import Histories
from broker_app.net.rest.messages.message_stream import MessageStream
from broker_app.net.rest.messages.receive import Receiver
from broker_app.net.rest.messages.settle import Settler
from broker_app.net.rest.messages.single.explanations import Explainer, ExplanationEndpoints
from broker_app.net.rest.messages.single.message_finder import MessageFinder
from broker_app.net.rest.messages.single.single_message import MessageEndpoints
from broker_app.net.rest.messages.tail import TailEndpoints
from broker_app.node.features.bridges import BridgeFeature
from broker_app.node.features.cluster import ClusterFeature
from broker_app.node.features.feature import Feature, NodeParts


class MessageFeature(Feature):
    """The broker itself, for clients of REST. Messages may wait for `bridges` and `cluster`."""

    def __init__(self, parts: NodeParts, bridges: BridgeFeature, cluster: ClusterFeature) -> None:
        self._parts = parts
        self._bridges = bridges
        self._cluster = cluster

    def endpoints(self) -> Handlers:
        """Publish, receive and settle; read and watch messages; queues, topics and subscriptions."""
        return {**self._producing(), **self._consuming(), **self._reading(), **self._destinations()}

    def _producing(self) -> Handlers:
        rest = self._parts.rest
        publisher = rest.publisher
        batches = BatchPublisher(rest.engine_client, publisher, rest.envelopes, rest.limits)
        publisher.publish_batch = batches.publish
        return {
            "publish_to_queue": publisher.to_queue,
            "publish_to_topic": publisher.to_topic,
            "publish_batch_to_queue": batches.to_queue,
            "publish_batch_to_topic": batches.to_topic,
        }

    def _consuming(self) -> Handlers:
        rest, live, read = self._parts.rest, self._parts.live, self._parts.engine.records
        client, waiting = rest.engine_client, rest.waiting
        chosen = ChosenMessages(client, read)
        receiver = Receiver(client, waiting, rest.blocks, rest.limits, chosen, rest.polls)
        settler = Settler(client, rest.limits)
        arrivals = ArrivalStream(client, waiting, live)
        streams = MessageStream(client, waiting, rest.blocks, rest.limits, arrivals, live)
        tails = TailEndpoints(client, waiting, rest.blocks)
        return {
            "receive": receiver.receive,
            "settle": settler.settle,
            "nack": settler.nack,
            "acknowledge": settler.acknowledge,
            "extend_lease": settler.extend,
            "stream_events": streams.stream,
            "tail_queue": tails.of_queue,
            "tail_topic": tails.of_topic,
        }

    def _reading(self) -> Handlers:
        rest, read = self._parts.rest, self._parts.engine.records
        browser = rest.browser
        histories = Histories(rest.engine_client, read, rest.blocks, rest.limits)
        cluster, finder = self._cluster, MessageFinder(rest.engine_client, read)
        message = MessageEndpoints(rest.engine_client, read, rest.blocks, rest.limits, finder)
        explainer = Explainer(self._parts.engine.broker, finder, cluster.report, self._bridges.supervisor)
        cluster.explain = explainer.explain_own
        explanations = ExplanationEndpoints(explainer, finder, cluster.pages, cluster.report)
        return {
            "browse_queue": browser.messages,
            "purge_queue": browser.purge,
            "digest_queue": DigestEndpoint(browser).digest,
            "browse_history": histories.messages,
            "get_message": message.one,
            "find_message": explanations.queue,
            "delete_message": message.delete,
            "explain_message": explanations.why,
            "get_message_body": message.body,
        }

    def _destinations(self) -> Handlers:
        rest, statistics = self._parts.rest, self._parts.statistics
        client, queues = rest.engine_client, rest.queues
        topics = TopicEndpoints(client, rest.destinations, statistics, rest.limits)
        tree = Tree(client, statistics, {QUEUE: queues.names, TOPIC: topics.names}, rest.limits)
        consumers = ConsumerEndpoints(client, self._parts.connections)
        subscriptions = SubscriptionEndpoints(client, self._parts.engine.records, rest.limits)
        stats = StatsEndpoints(
            *(self._parts.engine.broker, statistics, rest.waiting, self._bridges.rest_endpoints.seen)
        )
        return {
            "list_queues": queues.all,
            "get_queue": queues.one,
            "list_topics": topics.all,
            "get_topic": topics.one,
            "get_tree": tree.level,
            "list_consumers": consumers.of_queue,
            "list_topic_consumers": consumers.of_topic,
            "list_subscriptions_of_topic": subscriptions.of_topic,
            "list_subscriptions": subscriptions.all,
            "get_subscription": subscriptions.one,
            "delete_subscription": subscriptions.delete,
            "get_queue_statistics": stats.of_queue,
            "get_topic_statistics": stats.of_topic,
            "get_node_statistics": stats.past_of_node,
            "get_statistics": stats.node,
            "stream_statistics": stats.stream,
        }
