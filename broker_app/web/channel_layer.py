"""Channels' layer of this process, for what does not know Channels."""

from __future__ import annotations

from channels.exceptions import ChannelFull, InvalidChannelLayerError
from channels.layers import get_channel_layer
from django.core.exceptions import ImproperlyConfigured

from broker_app.features.callbacks.webhooks.worker_poster import LayerFailed, Message


def passing() -> tuple[type[Exception], ...]:
    """Failures that may pass."""
    # Few brokers use it, and all would load it as they start.
    from redis.exceptions import RedisError

    return ChannelFull, RedisError, OSError


class ConfiguredLayer:
    """The layer of the settings; see `worker_poster.ChannelLayer`."""

    def __init__(self) -> None:
        self._layer = get_channel_layer()

    async def send(self, channel: str, message: Message) -> None:
        """Send a message, which may be lost."""
        try:
            await self._layer.send(channel, message)
        except passing() as error:
            raise LayerFailed(_described(error)) from error

    async def receive(self, channel: str) -> Message:
        """The next message of a channel."""
        try:
            message: Message = await self._layer.receive(channel)
        except passing() as error:
            raise LayerFailed(_described(error)) from error
        return message

    async def new_channel(self) -> str:
        """The name of a channel of this process."""
        return str(await self._layer.new_channel())

    async def close(self) -> None:
        """Close all connections."""
        await self._layer.close_pools()


def check() -> None:
    """Raises ImproperlyConfigured if the package of the layer is not installed."""
    try:
        get_channel_layer()
    except InvalidChannelLayerError as error:
        raise ImproperlyConfigured(
            "the setting channel_layer (MOM_CHANNEL_LAYER) needs another package: "
            "pip install 'mom-broker[workers]'"
        ) from error


def _described(error: Exception) -> str:
    return "too many requests wait for workers" if isinstance(error, ChannelFull) else str(error)
