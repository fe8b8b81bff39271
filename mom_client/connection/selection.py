"""Failover settings of a client: spare connections, the return to a preferred broker, broker lists."""

from ..activity import Activity
from ..stomp import Frame
from .backup import BackupPool
from .brokerlist import BrokerLists
from .failover import Failover
from .failover_options import FailoverOptions
from .failover_uri import FailoverUri
from .keeper import ConnectionKeeper
from .link import Link
from .pace import Pace
from .priority import PriorityMonitor
from .search import BrokerSearch
from .switch import Deliveries, Switch

#: header of CONNECTED: the name of the enhanced cluster of the broker
ENHANCED_CLUSTER = "mom-cluster"

__all__ = ["BrokerSelection", "failover_of", "pace_of", "preferred_of"]


def pace_of(options: FailoverOptions) -> Pace:
    """The delays that the options ask for."""
    sweeps, startup = options.max_reconnect_attempts, options.startup_max_reconnect_attempts
    startup = sweeps if startup < 0 else startup
    return Pace(
        first_delay_s=options.initial_reconnect_delay / 1000,
        max_delay_s=options.max_reconnect_delay / 1000,
        factor=options.reconnect_delay_exponent if options.use_exponential_back_off else 1.0,
        jitter=0.0,
        startup_sweeps=None if startup < 0 else max(1, startup),
        sweeps=None if sweeps < 0 else sweeps,
        shuffle=options.randomize,
    )


def failover_of(uri: FailoverUri) -> Failover:
    """The list of a failover URI."""
    options = uri.options
    return Failover(
        uri.addresses,
        _pace(uri),
        preferred=preferred_of(uri),
        fixed=uri.static or not options.update_uris_supported,
        redirects=options.reconnect_supported,
    )


def _pace(uri: FailoverUri) -> Pace:
    return uri.rules.pace if uri.rules is not None else pace_of(uri.options)


def preferred_of(uri: FailoverUri) -> tuple[str, ...]:
    """The addresses to which the client returns."""
    if not uri.options.priority_backup:
        return ()
    return uri.options.priority_uris or uri.addresses[:1]


class BrokerSelection:
    """The parts that `uri` asks for; `failover_of` made the list of `search`."""

    def __init__(
        self,
        uri: FailoverUri,
        search: BrokerSearch,
        keeper: ConnectionKeeper,
        activity: Activity,
        deliveries: Deliveries,
    ) -> None:
        options = uri.options
        pace, preferred = _pace(uri), preferred_of(uri)
        switch = Switch(search, keeper, activity, deliveries)
        self._rules = uri.rules
        self._failover = search.failover
        self._keeper = keeper
        self._closed = False
        self._lists: BrokerLists | None = None
        self._priority: PriorityMonitor | None = None
        self._backup: BackupPool | None = None
        if options.backup:
            self._backup = BackupPool(search, options.backup_pool_size, pace)
            keeper.spare = self._backup.take
        if preferred:
            self._priority = PriorityMonitor(switch, preferred, pace)
        if options.update_uris_supported and not uri.static:
            self._lists = BrokerLists(
                search.failover,
                switch,
                changed=self._list_changed,
                reconnect=options.reconnect_supported,
                preferred=preferred,
            )

    def _list_changed(self) -> None:
        if self._backup is not None:
            self._backup.list_changed()

    @property
    def spares(self) -> list[str]:
        """The brokers to which there is a spare connection."""
        return self._backup.addresses if self._backup is not None else []

    def connected(self, link: Link) -> None:
        """`link` is in use."""
        if self._closed:
            return
        if self._rules is not None and link.connection.headers.get(ENHANCED_CLUSTER):
            self._failover.change_pace(self._rules.enhanced)
            self._keeper.reconnects = True
        if self._lists is not None:
            self._lists.subscribe(link)
        if self._priority is not None:
            self._priority.connected(link.address)
        if self._backup is not None:
            self._backup.connected(link.address)

    def take(self, frame: Frame) -> None:
        """A message of the topic of broker lists."""
        if self._lists is not None:
            self._lists.take(frame, self._keeper.address)

    async def close(self) -> None:
        """End all but the connection in use."""
        self._closed = True
        if self._lists is not None:
            self._lists.close()
        if self._priority is not None:
            self._priority.close()
        if self._backup is not None:
            await self._backup.close()
