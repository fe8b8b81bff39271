"""Reports of the broker: statistics, sampled once a second, and events.

Owns the history of numbers, in bounded memory, and the shapes in which they are told. It reads the core's
counters between batches and never adds work to a message.
"""

from broker_app.telemetry.statistics import Statistics
from broker_app.telemetry.system_topics import SystemTopics

__all__ = ["Statistics", "SystemTopics"]
