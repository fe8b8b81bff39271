"""Telemetry of the broker: statistics, sampled once a second, and events.

It keeps the history of metrics in bounded memory, and defines their formats. It reads the core's counters
between batches and never adds work to a message.
"""

from broker_app.telemetry.statistics import Statistics
from broker_app.telemetry.system_topics import SystemTopics

__all__ = ["Statistics", "SystemTopics"]
