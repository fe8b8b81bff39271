"""Every setting of a node, in one table: the fields of `Config`.

A setting `body_limit` is the option `--body-limit`, the variable `MOM_BODY_LIMIT`, the key
`/config/mom/body_limit` of a `zero.config` file and the field `Config.body_limit`. Options win over
variables, variables over the file (that of the setting `config_file`), the file over defaults. A secret is
never an option and in no file of settings; it comes from `MOM_X`, or from a file named by `MOM_X_FILE` or
`--x-file`. This module imports nothing of Django.
"""

import argparse
import json
import os
import re
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args
from urllib.parse import urlsplit

from broker_app.base import durations, units
from broker_app.base.settings import cluster_addresses, mail_server, roles, transport_connectors
from broker_app.base.settings.setting_groups import TITLES
from broker_app.base.settings.shipped_files import REFLEX_FILES
from broker_app.base.suggestions import suggestion

if TYPE_CHECKING:
    from broker_app import zero

PREFIX = "MOM_"

# Variables of the command line client, which share the prefix and are none of ours.
CLIENT_VARIABLES = frozenset(
    {"MOM_CONTEXT", "MOM_URL", "MOM_TOKEN", "MOM_TOKEN_FILE", "MOM_CA_FILE", "MOM_CERT_FILE", "MOM_DEBUG"}
)

#: file of the data directory with the web address of the broker there, for `mom` on the same machine
ADDRESS = "address"
#: file there with the secret by which `mom` proves to that broker that it can read the directory
LOCAL_SECRET = "local_secret"

DEFAULT_DATA = Path("data")

KIB = 1024
MIB = 1024 * KIB

#: of the journal, for readers with cursors that are behind
LEAST_CURSOR_BYTES = 1024 * MIB

#: headers of a message, and their bytes with the command
MAX_HEADERS, MAX_HEADER_BYTES = 128, 64 * KIB

REFUSE, CLOSE = "refuse", "close"

#: unit of a setting → the form of its values
_FORMS = {"bytes": units.A_SIZE, "s": "a time such as 2s, 5m or 90"}
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class ConfigError(ValueError):
    """Invalid settings; the text names each of them and the values that it takes."""


class _Unsuited(ValueError):
    """An invalid value of a setting; the text names the values that it takes."""


class SettingRule(NamedTuple):
    """The metadata of a setting, in addition to its type and default."""

    about: str
    unit: str = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    #: other words for some of the choices
    synonyms: Mapping[str, str] = MappingProxyType({})
    pattern: str = ""
    secret: bool = False
    #: a secret that may be given as an option too: not all of its values contain a password
    public: bool = False
    #: whether it can be replaced while the node runs
    reloadable: bool = False
    #: whether values of a broker's own are added to that of the central file, and do not replace it
    added: bool = False
    #: the folder of files that come with MOM and are found by name alone
    shipped: Path | None = None


def _setting(default: Any, about: str, unit: str = "", **rule: Any) -> Any:
    described = SettingRule(about, unit, **rule)
    return field(default=default, repr=not described.secret, metadata={"rule": described})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one node. Sizes are bytes, times are seconds; names of other units say so."""

    # who and where
    name: str = _setting("mom", "name of the broker, and a virtual host of STOMP", pattern=roles.BROKER_NAME)
    data: Path = _setting(DEFAULT_DATA, "directory of journal, configuration and secret key")  # noqa: RUF009
    config_file: Path | None = _setting(None, "zero.config file to be read and followed")  # noqa: RUF009
    smash_reload: bool = _setting(
        False,
        "reload as WebSphere sMash does: only the file that configFile names, and all bridges restart",
    )
    database: str | None = _setting(
        None,
        "address of the database of the configuration, which brokers may share: "
        "postgresql://USER:PASSWORD@HOST/NAME or sqlite:////PATH; without it, a file in data",
        secret=True,
    )
    journal: str | None = _setting(
        None,
        "address of the store of the journal, which mirrors share: postgresql://HOST/NAME, redis://HOST or "
        "file:/DIRECTORY; without it, files in data",
        secret=True,
        public=True,
    )
    private_journal: Path | None = _setting(  # noqa: RUF009
        None, "directory of a private journal: a copy of the shared one in files of this broker"
    )
    lease_s: float = _setting(
        3.0,
        "time after which another broker may take over a journal whose broker does not answer: a shorter one ends "
        "an outage sooner, and makes a pause of broker or store one",
        "s",
        least=0.5,
    )
    role: int = _setting(
        roles.MAIN,
        "1 for a main broker, -1 for its mirror, which shares its name and its journal, -2 for a callback broker",
    )
    advertised_host: str | None = _setting(
        None, "host name by which clients and mirrors reach this broker, else that of host"
    )
    secret_key_file: Path | None = _setting(  # noqa: RUF009
        None,
        "file of the secret key, else in data; brokers that share a journal or a database need the same one",
    )
    host: str = _setting("127.0.0.1", "address that the web and STOMP listeners bind")
    port: int = _setting(8000, "port of web, REST and WebSocket; 0 takes a free one", least=0, most=65535)
    stomp_port: int = _setting(
        61613, "port of STOMP over TCP; 0 takes a free one, -1 none at all", least=-1, most=65535
    )
    log_level: str = _setting(
        "info", "lowest severity that is logged", choices=("debug", "info", "warning", "error")
    )
    log_format: str = _setting(
        "text", "form of the lines of the log: text, or one JSON object each", choices=("text", "json")
    )

    # authentication
    admin_password: str | None = _setting(None, "password of user admin; default: generated", secret=True)
    anonymous: bool = _setting(False, "let anybody do anything without login; only for development")
    allowed_hosts: tuple[str, ...] = _setting(
        (),
        "further host names this node is reached by, and origins (https://host:port) of other web pages that may "
        "use it, by comma",
        pattern=r"(https?://)?[^/,]+",
    )
    revoked: str = _setting(
        REFUSE,
        "what happens to a connection that loses a permission it is using: further use is refused, or it is closed",
        choices=(REFUSE, CLOSE),
        reloadable=True,
    )
    transaction_receipts: str = _setting(
        transport_connectors.AT_COMMIT,
        "when STOMP confirms the frames of a transaction: at its COMMIT, or each frame as it is taken",
        choices=(transport_connectors.AT_COMMIT, transport_connectors.EACH_FRAME),
        reloadable=True,
    )
    console_url: str | None = _setting(
        None,
        "address of the console for people, also for links in notifications: https://mom.example.org/broker where a "
        "proxy has it below /broker; with https and no certificate here, a proxy ends TLS, and names clients in "
        "X-Forwarded-For",
        pattern=r"https?://[^/?#\s]+(/[\w.~-]+)*/?",
    )

    # TLS: with a certificate the web port speaks https and wss, and STOMP over TLS has a port of its own
    tls_cert: Path | None = _setting(  # noqa: RUF009
        None,
        "file with the certificate of this broker (PEM, followed by its chain); read again when it changes",
    )
    tls_key: Path | None = _setting(  # noqa: RUF009
        None, "file with the key of the certificate (PEM); without it the key is in tls_cert"
    )
    tls_key_password: str | None = _setting(None, "password of the key of the certificate", secret=True)
    stomp_tls_port: int = _setting(
        61614, "port of STOMP over TLS; 0 takes a free one, -1 none at all", least=-1, most=65535
    )
    tls_ca: Path | None = _setting(None, "file with the authorities of client certificates (PEM)")  # noqa: RUF009
    tls_client_certificates: str = _setting(
        "none", "whether clients are asked for a certificate", choices=("none", "optional", "required")
    )
    tls_client_name: str = _setting(
        "cn",
        "where a client certificate has the name of its user: common name, or an alternative name",
        choices=("cn", "dns", "email", "uri"),
    )

    # clusters: brokers that deliver messages to the consumers of all others
    cluster_port: int | None = _setting(
        None,
        "port for the other brokers of a cluster; 0 takes a free one; without it the broker is in no cluster",
        least=0,
        most=65535,
    )
    cluster_host: str | None = _setting(
        None,
        "host name or address by which the other brokers of the cluster reach this one, as HOST, or HOST:PORT "
        "where a proxy or a container has another port than cluster_port",
    )
    cluster: tuple[str, ...] = _setting(
        (),
        "brokers of the cluster, by comma: HOST:PORT, HOST (port 7676), or :PORT for this machine; the broker "
        "itself may be among them",
        added=True,
    )
    network_connector: str = _setting(
        "",
        "brokers of the cluster as ActiveMQ's networkConnector names them: static:(tcp://HOST:PORT,…), "
        "multicast://default for those that announce themselves, or both by comma",
    )
    discovery_uri: str = _setting(
        "",
        "multicast group to which this broker is announced, with its address for the others, signed with "
        "cluster_secret: multicast://default",
    )
    cluster_id: str | None = _setting(
        None,
        "name of an enhanced cluster: brokers with the same name in the same journal store take over the "
        "messages of one that fails; needs journal and cluster_port",
        pattern=r"[A-Za-z0-9]{1,32}",
    )
    cluster_heartbeat_interval: float = _setting(
        1.0, "time between two heart-beats of a member of an enhanced cluster", "s", least=0.1, most=60
    )
    cluster_heartbeat_threshold: int = _setting(
        2, "heart-beats that are missing until a member is suspect", least=1, most=100
    )
    cluster_monitor_interval: float = _setting(
        0.5, "time between two looks at a member that is suspect", "s", least=0.1, most=60
    )
    cluster_monitor_threshold: int = _setting(
        2, "looks without a heart-beat until a suspect has failed, and is taken over", least=1, most=100
    )
    cluster_takeover_wait: float = _setting(
        300.0,
        "time for which a member waits at its start while another one takes it over, before it gives up",
        "s",
        least=0,
    )
    cluster_keeper: str | None = _setting(
        None,
        "HOST:PORT of the broker that keeps the change record (the master broker); without it, all do",
    )
    cluster_dynamic_keeper: bool = _setting(
        False, "let an administrator move the change record to another broker while the brokers run"
    )
    cluster_secret: str | None = _setting(
        None, "secret that the brokers of a cluster have in common, of 16 characters or more", secret=True
    )
    cluster_transport: str = _setting(
        "tcp",
        "whether connections between brokers of the cluster are encrypted: tls uses tls_cert, tls_key and tls_ca",
        choices=("tcp", "tls"),
        synonyms={"ssl": "tls"},
    )
    cluster_url: str | None = _setting(
        None,
        "central configuration file of the cluster, which all its brokers read: file:/PATH, https://… or http://…",
        pattern=r"(file:|https?://)\S+",
    )

    # clients of a cluster: the names that ActiveMQ has for attributes of its transport connectors
    update_cluster_clients: bool = _setting(
        False, "send clients the addresses of the other brokers of the cluster, and again when one joins"
    )
    update_cluster_clients_on_remove: bool = _setting(
        False,
        "send clients the addresses of the other brokers again when one has left, too; needs update_cluster_clients",
    )
    rebalance_cluster_clients: bool = _setting(
        False,
        "ask clients to go to a broker that has joined, so that all brokers have equally many; needs "
        "update_cluster_clients",
    )
    update_cluster_filter: str = _setting(
        "",
        "names of brokers whose addresses are sent to clients: regular expressions, by comma; empty: all",
    )
    transport_connector: str = _setting(
        "",
        "attributes of single listeners (stomp, stomp+tls, ws or wss) that differ from the settings of the broker, by "
        "blank: "
        "stomp+tls?updateClusterClients=true&updateClusterFilter=A.* stomp?transactionReceipts=frame",
    )

    # console sign-in through an OpenID Connect provider, in addition to passwords
    oidc_issuer: str | None = _setting(
        None,
        "issuer address of the OpenID Connect provider; empty: no such login",
        pattern=r"https?://[^\s?#]+",
    )
    oidc_client_id: str | None = _setting(None, "client id issued by the provider")
    oidc_client_secret: str | None = _setting(None, "client secret issued by the provider", secret=True)
    oidc_name: str = _setting("single sign-on", "name of the provider on the login page", reloadable=True)
    oidc_username_claim: str = _setting(
        "preferred_username", "claim with the name of the user", reloadable=True
    )
    oidc_groups_claim: str | None = _setting(
        None, "claim with the groups of the user; groups that do not exist here are ignored", reloadable=True
    )
    oidc_admin_group: str | None = _setting(
        None, "group in oidc_groups_claim whose members are administrators", reloadable=True
    )
    oidc_monitor_group: str | None = _setting(
        None,
        "group in oidc_groups_claim whose members are monitors, unless they are administrators",
        reloadable=True,
    )
    oidc_link: bool = _setting(False, "link a provider login to an existing local user of the same name")

    # limits of one client
    connect_timeout: float = _setting(10, "time to log in after connecting", "s", least=0.1, reloadable=True)
    heartbeat_ms: int = _setting(
        10_000,
        "STOMP heart-beat offered both ways, and half the time between two WebSocket pings; 0: no heart-beats",
        "ms",
        least=0,
    )
    max_body_bytes: int = _setting(
        64 * MIB,
        "maximum size of a message body, which is in memory as a whole while it is received",
        "bytes",
        least=1,
    )
    max_connections: int = _setting(
        20_000,
        "maximum number of client connections of the node; each takes a file descriptor",
        least=1,
        reloadable=True,
    )
    max_subscriptions: int = _setting(
        10_000, "maximum number of subscriptions of a connection", least=1, reloadable=True
    )
    max_frames_per_second: int = _setting(
        0, "maximum STOMP frames a second of a connection; 0: no limit", "1/s", least=0, reloadable=True
    )
    max_bytes_per_second: int = _setting(
        0, "maximum bytes a second of a connection; 0: no limit", "bytes", least=0, reloadable=True
    )

    # messages
    memory_bytes: int = _setting(
        1024 * MIB,
        "memory for messages, in fixed shares: what has used up its share waits, is refused, or is read from the "
        "journal",
        "bytes",
        least=8 * MIB,
    )
    max_messages: int = _setting(
        0, "maximum number of messages in all queues together; 0: no limit", least=0, reloadable=True
    )
    max_bytes: int = _setting(
        0, "maximum size of bodies in all queues together; 0: no limit", "bytes", least=0, reloadable=True
    )
    max_store_bytes: int = _setting(
        0, "maximum size of the journal, beyond which messages are refused; 0: no limit", "bytes", least=0
    )
    queue_reap: float = _setting(
        120,
        "time after which a queue that was created by its first use is deleted, without consumers and messages; "
        "0: never",
        "s",
        least=0,
        reloadable=True,
    )
    full_wait: float = _setting(
        30,
        "time a message waits in memory for room in a full queue before it is refused",
        "s",
        least=0.1,
        reloadable=True,
    )
    segment_bytes: int = _setting(
        16 * MIB,
        "size of one segment file of the journal; smaller ones give space back sooner, and are more files",
        "bytes",
        least=MIB,
    )
    journal_retention_bytes: int = _setting(
        0,
        "size of the journal that is kept on disk for later reading although no message in it waits; programs "
        "with cursors keep as much, and 1 GiB at least",
        "bytes",
        least=0,
    )
    auto_create_queues: bool = _setting(True, "whether queues are created by their first use")
    max_attempts: int = _setting(
        16, "delivery attempts before a message is dead-lettered", least=1, reloadable=True
    )
    credit: int = _setting(
        100,
        "unacknowledged deliveries of a subscription that gives no credit: more are faster, and are redelivered when "
        "their client fails",
        least=1,
        reloadable=True,
    )
    lease: float = _setting(
        30,
        "time to settle a message received by REST, after which it is delivered again",
        "s",
        least=1,
        most=43_200,
        reloadable=True,
    )
    audit_days: int = _setting(
        400,
        "days for which entries of the audit log are kept; each is a row of the database of the configuration",
        "d",
        least=1,
        most=36_500,
    )
    # reflexes: plug-ins that decide about messages and services
    reflex_file: Path | None = _setting(  # noqa: RUF009
        None,
        "file of reflexes in OpenMOM's form (lines S F G R D), or the name of one that comes with MOM",
        shipped=REFLEX_FILES,
    )
    reflex_path: Path | None = _setting(  # noqa: RUF009
        None, "directory of Python modules with reflexes; without it, only installed packages have some"
    )
    # alerts: targets of notifications, in addition to those of each rule
    alert_notify: tuple[str, ...] = _setting(
        (),
        "targets of alerts, comma-separated: queue:NAME, https://HOST/PATH, mailto:ADDRESS",
        pattern=r"(queue|https?|mailto):\S+",
    )
    smtp: str | None = _setting(
        None,
        "mail server of alerts: smtp://USER:PASSWORD@HOST:PORT?from=ADDRESS, or smtp+starttls:// or smtps:// for "
        "an encrypted connection; from is the sender, else mom@localhost; without the setting, no mail",
        secret=True,
        public=True,
    )
    # callbacks
    webhook_allow: tuple[str, ...] = _setting(
        (),
        "networks (10.0.0.0/8), addresses and host names that webhooks may call although they are not public, "
        "by comma",
        pattern=r"[\w.:/-]+",
    )
    channel_layer: str | None = _setting(
        None,
        "address of a Redis through which workers take over the requests of webhooks: redis://HOST; without it, "
        "the broker sends them",
        secret=True,
        public=True,
        pattern=r"(rediss?|unix)://\S+",
    )
    drain: float = _setting(
        8, "time given to open work when the node stops; a stop takes up to 20 s more", "s", least=0, most=600
    )

    #: where each value is from that is no default: a variable, or FILE:LINE
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    #: the values of the central file that are in effect, by the name of their setting
    central: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    #: how many journals of this broker others of its enhanced cluster have taken over; not a setting
    journal_generation: int = 0

    # Shares of `memory_bytes`. Those of single clients are no part of its sum.
    @property
    def body_bytes(self) -> int:
        """For waiting messages; bodies beyond it are read from the journal."""
        return self.memory_bytes // 8

    @property
    def transient_bytes(self) -> int:
        """For messages that are in memory only."""
        return self.memory_bytes // 4

    @property
    def transactions_bytes(self) -> int:
        """For open transactions of all clients; one of them may have a fourth of it."""
        return self.memory_bytes // 4

    @property
    def blocked_bytes(self) -> int:
        """For messages that wait for room in full queues."""
        return self.memory_bytes // 16

    @property
    def reflex_bytes(self) -> int:
        """For messages that wait for reflexes."""
        return self.memory_bytes // 16

    @property
    def inbox_bytes(self) -> int:
        """For data received and not yet stored; beyond it, reading from clients pauses."""
        return self.memory_bytes // 128

    @property
    def outbox_bytes(self) -> int:
        """For data sent and not yet taken by a client; beyond it, its deliveries pause."""
        return self.memory_bytes // 64

    @property
    def histories(self) -> int:
        """Destinations whose statistics have a history, of up to 160 KiB each: a twenty-fifth together."""
        return self.memory_bytes // (4 * MIB)

    @property
    def base_path(self) -> str:
        """The path below which a proxy has the console and the API: /broker, or empty."""
        return urlsplit(self.console_url or "").path.rstrip("/").removesuffix("/console")

    @property
    def behind_tls(self) -> bool:
        """True if a proxy ends TLS before this node: cookies are sent over https only."""
        return self.tls_cert is None and urlsplit(self.console_url or "").scheme == "https"

    @property
    def ping_s(self) -> float:
        """Seconds between two pings of a WebSocket, and to answer one."""
        return self.heartbeat_ms / 500 or 20.0

    @property
    def max_websocket_bytes(self) -> int:
        """The longest WebSocket message: the longest STOMP frame, and a buffer's worth of the next ones."""
        return self.max_body_bytes + MAX_HEADER_BYTES + MIB

    @property
    def journal_name(self) -> str:
        """The name of the shared journal: the brokers of an enhanced cluster have one each."""
        name = self.name if self.cluster_id is None else f"{self.cluster_id}.{self.name}"
        return f"{name}.{self.journal_generation}" if self.journal_generation else name

    def websocket_url(self, port: int) -> str:
        """The WebSocket of the node, whose web port this is. Without a host if it does not know by which name
        clients reach it: then it is that of their connection."""
        public = urlsplit(self.console_url or "")
        if public.hostname:
            return f"{'wss' if public.scheme == 'https' else 'ws'}://{public.netloc}{self.base_path}/ws"
        scheme = "ws" if self.tls_cert is None else "wss"
        return f"{scheme}://{self.advertised_host or ''}:{port}{self.base_path}/ws"

    @property
    def secret_key_path(self) -> Path:
        """The file of the secret key."""
        return self.secret_key_file or self.data / "secret_key"

    @property
    def known_hosts(self) -> tuple[str, ...]:
        """Host names of this node, in addition to plain IP addresses."""
        allowed = (one for one in self.allowed_hosts if "://" not in one)
        return tuple(dict.fromkeys(("localhost", self.host, socket.gethostname(), *allowed)))

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        """Origins of web pages, in addition to those of the known hosts."""
        return tuple(one for one in self.allowed_hosts if "://" in one)

    @property
    def cursor_bytes(self) -> int:
        """The bytes of the journal that are kept for readers with cursors: at most half of those that may be
        stored, so that a reader that has stopped does not stop producers."""
        kept = max(self.journal_retention_bytes, LEAST_CURSOR_BYTES)
        return min(kept, self.max_store_bytes // 2) if self.max_store_bytes else kept


class Setting(NamedTuple):
    """One row of the table, for help texts and listings."""

    name: str
    variable: str
    option: str
    type: str
    default: Any
    rule: SettingRule


@cache  # asked for by each start, and by a takeover
def settings() -> tuple[Setting, ...]:
    """The table, in the order of `Config`."""
    return tuple(_rows())


def _rows() -> Iterator[Setting]:
    for row in fields(Config):
        if "rule" not in row.metadata:
            continue
        rule: SettingRule = row.metadata["rule"]
        option = "--" + row.name.replace("_", "-") + ("-file" if rule.secret else "")
        yield Setting(row.name, PREFIX + row.name.upper(), option, _type_name(row), row.default, rule)


class CentralValue(NamedTuple):
    """The value of a setting in the central file of a cluster, as it stands there: FILE:LINE."""

    name: str
    text: str
    source: str


def load(
    environment: Mapping[str, str] | None = None,
    central: Callable[[str], Iterable[CentralValue]] = lambda _: (),
) -> Config:
    """Config from variables (those of the process when none are given) and the files that they name.

    `central` reads the file at `cluster_url`, whose values are below all others. Raises ConfigError that lists
    everything wrong at once.
    """
    given = dict(os.environ if environment is None else environment)
    wrong: list[str] = []
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    of_central: dict[str, Any] = {}
    for setting in settings():
        try:
            text = _text_of(setting, given)
            if text is not None:
                values[setting.name] = _parse(setting, text)
                sources[setting.name] = setting.variable
        except _Unsuited as error:
            wrong.append(f"{setting.variable}: {error}")
        except ValueError as error:
            wrong.append(str(error))
    wrong += _unknown(given)
    try:
        for name, of_file in _settings_of_file(values.get("config_file")).items():
            if name not in values:
                values[name], sources[name] = of_file.value, of_file.source
        if values.get("cluster_url") is not None:
            wrong += _add_central(central(values["cluster_url"]), values, sources, of_central)
    except ConfigError as error:
        wrong.append(str(error))
    contradictions = (
        *roles.faults(values),
        *cluster_addresses.faults(values),
        *mail_server.faults(values),
        *transport_connectors.faults(values),
    )
    wrong += [f"{sources.get(name, PREFIX + name.upper())}: {fault}" for name, fault in contradictions]
    if wrong:
        raise ConfigError("\n".join(wrong))
    values = {**roles.defaults(values.get("role", roles.MAIN)), **values}
    return Config(**values, sources=MappingProxyType(sources), central=MappingProxyType(of_central))


def _add_central(
    central: Iterable[CentralValue],
    values: dict[str, Any],
    sources: dict[str, str],
    used: dict[str, Any],
) -> Iterator[str]:
    """Add the values of the central file below those that are given, and to those that are `used`; the errors
    in them."""
    table = {setting.name: setting for setting in settings()}
    for name, text, source in central:
        try:
            value = _parse(table[name], text)
        except ValueError as error:
            yield f"{source}: {name} {error}"
            continue
        if table[name].rule.added:
            values[name] = (*value, *values.get(name, ()))
        elif name in values:
            continue
        else:
            values[name] = value
        used[name] = value
        sources.setdefault(name, source)


def checked_name(name: str) -> str:
    """The name of a broker that is given elsewhere than in the settings. Raises ConfigError."""
    setting = next(setting for setting in settings() if setting.name == "name")
    try:
        return _matching(setting, name)
    except _Unsuited as error:
        raise ConfigError(f"the name of the broker: {error}") from error


def read_file(path: Path) -> "zero.Loaded":
    """The content of a `zero.config` file. Raises ConfigError with all errors and their positions."""
    # Here and below: most nodes have no such file, and no command line waits for its reader.
    from broker_app import zero

    try:
        return zero.load(path.name, zero.Folder(path.parent), words(path.parent))
    except zero.InvalidFiles as bad:
        errors = "\n".join(f"  {line}" for line in str(bad).splitlines())
        raise ConfigError(f"{path} cannot be used:\n{errors}") from bad


def words(folder: Path) -> "zero.SettingReaders":
    """The settings that a file in `folder` may say. Its paths are as seen from there."""
    from broker_app import zero

    table = {setting.name: setting for setting in settings()}
    secrets = {
        name: f"a secret stands in no file of settings; set {setting.variable}, or {setting.variable}_FILE"
        for name, setting in table.items()
        if setting.rule.secret
    }
    refused = {**secrets, "config_file": "a file does not name itself; @include takes in others"}
    return zero.SettingReaders({name: partial(_of_json, table[name], folder) for name in table}, refused)


def _settings_of_file(path: Path | None) -> "Mapping[str, zero.SettingValue]":
    return read_file(path).settings if path is not None else {}


def fault_of_override(name: str, value: Any) -> str:
    """The error of a value that is to replace that of a running node; empty if it is valid."""
    known = {setting.name: setting for setting in settings() if setting.rule.reloadable}
    if name not in known:
        return f"is no setting that can change while the broker runs{suggestion(name, sorted(known))}"
    wanted = "a text" if known[name].type == "str" else "a number"
    if isinstance(value, bool) or not isinstance(value, str if wanted == "a text" else int | float):
        return f"must be {_FORMS.get(known[name].rule.unit, wanted)}"
    try:
        _parse(known[name], str(value))
    except ValueError as error:
        return str(error)
    return ""


def in_unit(name: str, value: Any) -> Any:
    """The number of a text such as 5MB or 2s for a setting with a unit; any other value as it is."""
    setting = next((setting for setting in settings() if setting.name == name), None)
    if setting is None or not setting.rule.unit or not isinstance(value, str):
        return value
    with suppress(ValueError):  # `fault_of_override` says so
        return _in_unit(setting, value)
    return value


def overridden(config: Config, values: Mapping[str, Any]) -> Config:
    """The settings of a running node, some of which are replaced by `values` that have no fault."""
    if not values:
        return config
    known = {setting.name: setting for setting in settings()}
    return replace(config, **{name: _parse(known[name], str(value)) for name, value in values.items()})


def add_options(parser: argparse.ArgumentParser) -> None:
    """Give a command every setting as an option, in groups; what is not given stays None."""
    group: argparse._ActionsContainer = parser
    for setting in settings():
        if setting.name in TITLES:
            group = parser.add_argument_group(TITLES[setting.name])
        unit = f" [{setting.rule.unit}]" if setting.rule.unit else ""
        what = f"{setting.rule.about}{unit} ({setting.variable}{_default_text(setting)})"
        name = setting.option.removeprefix("--").replace("-", "_")
        if setting.rule.public:
            plain = setting.option.removesuffix("-file")
            group.add_argument(plain, metavar=setting.name.upper(), help=what)
        if setting.type == "bool":
            group.add_argument(
                setting.option, dest=name, nargs="?", const="true", metavar="true|false", help=what
            )
        else:
            group.add_argument(setting.option, dest=name, metavar=name.upper(), help=what.replace("%", "%%"))


def options_in(arguments: Sequence[str]) -> dict[str, str]:
    """The settings among a command's arguments, as variables. Arguments that are no settings are left alone.

    A process puts these into its environment before it reads its Config, so an option is simply
    the variable of that one process.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_options(parser)
    found, _ = parser.parse_known_args(list(arguments))
    return {PREFIX + name.upper(): value for name, value in vars(found).items() if value is not None}


def unknown_option(arguments: Sequence[str], others: Collection[str]) -> str:
    """A sentence about the first option that is no setting, and none of `others`; empty if there is none."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_options(parser)
    _, left = parser.parse_known_args(list(arguments))
    known = {*(setting.option for setting in settings()), *others}
    strange = (word.partition("=")[0] for word in left if word.startswith("--"))
    found = next((word for word in strange if word not in known), "")
    return f"there is no option {found}{suggestion(found, sorted(known))}" if found else ""


def _text_of(setting: Setting, given: Mapping[str, str]) -> str | None:
    """The text of a setting; of a secret, the content of the file named, without its line end."""
    text = given.get(setting.variable)
    file_variable = setting.variable + "_FILE"
    if not setting.rule.secret or file_variable not in given:
        return text
    if text is not None:
        raise ValueError(f"{setting.variable} and {file_variable} are both set: take one")
    try:
        secret = Path(given[file_variable]).read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"{file_variable}: cannot read {given[file_variable]}: {error.strerror}") from error
    if not secret:
        raise ValueError(f"{file_variable}: {given[file_variable]} is empty")
    return secret


def _parse(setting: Setting, text: str) -> Any:
    rule = setting.rule
    text = rule.synonyms.get(text, text)
    if rule.choices and text not in rule.choices:
        hint = suggestion(text, rule.choices)
        raise _Unsuited(f"{text!r} is not one of {', '.join(rule.choices)}{hint}")
    match setting.type:
        case "bool":
            if text.lower() not in _TRUE + _FALSE:
                raise _Unsuited(f"{text!r} is neither true nor false")
            return text.lower() in _TRUE
        case "int" | "float":
            return _number(setting, text)
        case "Path":
            return Path(text).expanduser()
        case "tuple":
            parts = tuple(part.strip() for part in text.split(",") if part.strip())
            return tuple(_matching(setting, part) for part in parts)
    return _matching(setting, text)


def _matching(setting: Setting, text: str) -> str:
    if not text:
        raise _Unsuited("is empty")
    if setting.rule.pattern and not re.fullmatch(setting.rule.pattern, text):
        raise _Unsuited(f"{text!r} is not of the form {setting.rule.pattern}")
    return text


def _in_unit(setting: Setting, text: str) -> int | float:
    """The number of a text in the unit of the setting. Raises ValueError."""
    is_whole = setting.type == "int"
    match setting.rule.unit:
        case "bytes":
            return units.size(text)
        case "s":
            found = durations.seconds(text)
            if is_whole and not found.is_integer():
                raise ValueError(text)
            return int(found) if is_whole else found
    return int(text) if is_whole else float(text)


def _number(setting: Setting, text: str) -> int | float:
    rule = setting.rule
    kind = _FORMS.get(rule.unit, "a number")
    try:
        number = _in_unit(setting, text)
    except ValueError:
        raise _Unsuited(f"{text!r} is not {kind}") from None
    # Written so that nan, which compares false with everything, is refused as well.
    if not (rule.least is None or number >= rule.least) or not (rule.most is None or number <= rule.most):
        bounds = f"at least {rule.least:g}"
        if rule.most is not None:
            bounds = f"between {rule.least:g} and {rule.most:g}"
        raise _Unsuited(f"{text} must be {bounds}")
    return number


_OF_JSON: Mapping[str, tuple[tuple[type, ...], str]] = {
    "bool": ((bool,), "true or false"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "tuple": ((list,), "an array of strings"),
}


def _of_json(setting: Setting, folder: Path, value: Any) -> Any:
    """The value of a setting, from a file. Raises ValueError."""
    types, right = _OF_JSON.get(setting.type, ((str,), "a string"))
    if setting.rule.unit == "bytes":
        types, right = (int, str), 'a number of bytes, or a size such as "64MiB"'
    if setting.rule.unit == "s":
        types, right = (int, float, str), 'a number of seconds, or a time such as "5m"'
    if not isinstance(value, types) or (isinstance(value, bool) and setting.type != "bool"):
        raise _Unsuited(f"must be {right}")
    if isinstance(value, list):
        if not all(isinstance(part, str) for part in value):
            raise _Unsuited(f"must be {right}")
        return tuple(_matching(setting, part) for part in value)
    found = _parse(setting, value if isinstance(value, str) else json.dumps(value))
    return _file_of(setting, folder, found) if isinstance(found, Path) else found


def _file_of(setting: Setting, folder: Path, named: Path) -> Path:
    """The file that a file in `folder` names: as seen from there, or one of that name that comes with MOM."""
    here, shipped = folder / named, setting.rule.shipped
    if shipped is None or here.is_file() or len(named.parts) != 1 or not (shipped / named).is_file():
        return here
    return shipped / named


def _unknown(given: Mapping[str, str]) -> list[str]:
    """A sentence for each MOM_ variable that means nothing: a misspelt setting must not pass in silence."""
    known = {setting.variable for setting in settings()} | CLIENT_VARIABLES
    known |= {setting.variable + "_FILE" for setting in settings() if setting.rule.secret}
    strange = sorted(name for name in given if name.startswith(PREFIX) and name not in known)
    return [f"{name} is no setting of MOM{suggestion(name, sorted(known))}" for name in strange]


def _type_name(row: "Field[Any]") -> str:
    kind = next((part for part in get_args(row.type) if part is not type(None)), row.type)
    origin = getattr(row.type, "__origin__", None)
    return "tuple" if origin is tuple else str(getattr(kind, "__name__", kind))


def _default_text(setting: Setting) -> str:
    if setting.default in (None, (), False):
        return ""
    if setting.rule.unit == "bytes":
        in_mib = setting.default % MIB == 0
        return (
            f", default {setting.default // MIB}MiB" if in_mib else f", default {setting.default // KIB}KiB"
        )
    return f", default {setting.default}"
