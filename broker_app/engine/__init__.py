"""The engine: the one task that moves messages, from the inbox to the journal and back to clients."""

from broker_app.engine.engine import Backpressure, Engine, WritableListener

__all__ = ["Backpressure", "Engine", "WritableListener"]
