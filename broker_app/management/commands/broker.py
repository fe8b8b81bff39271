"""`manage.py broker`: runs a node with its web server until it is stopped."""

import asyncio
import gc
import logging
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import uvloop
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError, connections
from django.urls import get_resolver

from broker_app import config
from broker_app.base.process import fd_limits
from broker_app.base.process.ownership import ForeignPath
from broker_app.base.process.private_files import close_to_others, write_for_owner_alone
from broker_app.config import Config, ConfigError
from broker_app.features.callbacks.webhooks.worker_poster import WorkerPoster
from broker_app.features.cluster.record.change_record import Change
from broker_app.features.cluster.record.replicated_record import ReplicatedRecord
from broker_app.features.enhanced_cluster.generation import TakenOver, with_generation
from broker_app.features.enhanced_cluster.reset import free_journals
from broker_app.journal.errors import JournalError
from broker_app.journal.store import Unreachable
from broker_app.management import configuration_tables
from broker_app.management.host_programs import HostPrograms
from broker_app.management.local_access import LocalAccess
from broker_app.management.process_settings import ProcessSettings
from broker_app.management.shared_broker import SharedBroker
from broker_app.management.trusted_files import make_directories, refuse_foreign
from broker_app.management.welcome import Welcome, write_private
from broker_app.net.auth.login import Logins
from broker_app.net.server.listeners import Listeners, Ports, PortTaken, bound, drawn_ports
from broker_app.node import configuration_copy, node, process
from broker_app.node.stop_watch import StopWatch
from broker_app.pipeline import database as pipeline_database
from broker_app.pipeline.store import DatabaseStore
from broker_app.reflex import cnf
from broker_app.reflex.declaration import Declaration
from broker_app.storage import identity as journal_identity
from broker_app.storage import offline
from broker_app.storage.factory import is_shared
from broker_app.web import actions, api, audit_sources, channel_layer, console_files, snapshot
from broker_app.web.auth.encryption import Unreadable
from broker_app.web.auth.first_password import FirstPassword
from broker_app.web.auth.sessions import session_ended
from broker_app.web.cluster_configuration import ClusterConfiguration, ProposedChanges
from broker_app.web.files import REFUSED, FileWatcher, Reload, owner_of, release
from broker_app.web.policy_sync import ask
from broker_app.web.resource_types import bridges, callbacks
from broker_app.zero import InvalidFiles
from mom_site.asgi import Site
from mom_site.database import overwrite_leftovers, trouble

log = logging.getLogger(__name__)

# CPython's default interval for switching threads, 5 ms, is long compared with a turn of the node's loop.
_SWITCH_INTERVAL_S = 0.0005
#: seconds in which a proposal to a cluster is answered; the keeper has five of them
_PROPOSAL_S = 10.0


OF_DJANGO = {
    "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color",
}  # fmt: skip


#: exit code for settings that cannot be used
WRONG_USE = 2

#: options that are no settings
OPEN = "--open"
RESET = "--reset-takeovers"
OWN = {
    OPEN: "open the console in a browser, logged in",
    RESET: "free the journals of other members of an enhanced cluster that this broker took over when it "
    "died, and exit",
}


class Command(BaseCommand):
    help = "Runs a node: STOMP, WebSocket, REST and the console. Each option is also a variable MOM_…"
    requires_system_checks = ()
    #: whether the caller starts the process again when `restart_options` is set
    can_restart = False
    #: set when an operator has ordered a restart: options that follow those of this start
    restart_options: Sequence[str] | None = None
    #: whether the process ends with this command, so that what keeps it from ending is watched
    _ends_the_process = False

    def run_from_argv(self, argv: list[str]) -> None:
        self._ends_the_process = True
        super().run_from_argv(argv)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        # The help is that of `mom up`, without Django's options.
        self.suppressed_base_arguments = OF_DJANGO
        # Options become variables before Django starts, which knows whole names only.
        return super().create_parser(
            prog_name, subcommand, usage="%(prog)s [options]", allow_abbrev=False, **kwargs
        )

    def add_arguments(self, parser: CommandParser) -> None:
        config.add_options(parser)
        for option, about in OWN.items():
            parser.add_argument(option, action="store_true", help=about)

    def handle(self, **options: Any) -> None:
        write_for_owner_alone()
        mom: Config = settings.MOM
        if mom.oidc_issuer is not None and mom.oidc_client_id is None:
            raise CommandError(
                "oidc-issuer names a provider, and oidc-client-id, what it calls us, is not set"
            )
        try:
            refuse_foreign(mom)
        except ConfigError as error:
            raise CommandError(f"the broker does not start:\n{error}") from error
        reflexes = _reflexes_of(mom)
        _check_console()
        if mom.channel_layer is not None:
            try:
                channel_layer.check()
            except ImproperlyConfigured as error:
                raise CommandError(str(error)) from error
        # Before anything is written: a broker that runs here keeps its configuration and its password, and a
        # port that is in use leaves no half-made data.
        try:
            offline.check_free(mom.data / "journal")
            if is_shared(mom):
                _warn_of_files(mom)
        except JournalError as error:
            raise CommandError(f"the broker does not start: {error}") from error
        # A journal of its own is locked when it is opened; with a shared one, the configuration is its own.
        held = offline.hold(mom.data / "journal") if is_shared(mom) else nullcontext()
        try:
            with bound(mom) as listeners, held:
                if options["reset_takeovers"]:
                    self._reset_takeovers(mom)
                    return
                self._serve_until_stopped(mom, listeners, reflexes, open_browser=options["open"])
        except PortTaken as error:
            raise CommandError(str(error)) from error
        except ConfigError as error:
            raise CommandError(f"the broker does not start: {error}", returncode=WRONG_USE) from error
        except (OSError, JournalError, ForeignPath) as error:
            raise CommandError(f"the broker ended: {error}") from error

    def _reset_takeovers(self, mom: Config) -> None:
        """Free the journals of other members that this broker held when it died."""
        freed = free_journals(mom)
        for journal in freed:
            self.stdout.write(f"{journal} is free: another member takes it over")
        if not freed:
            self.stdout.write(f"no journal of another member is held by {mom.name}")

    def _serve_until_stopped(
        self, mom: Config, listeners: Listeners, reflexes: list[Declaration], *, open_browser: bool
    ) -> None:
        """Serve; begin with the next journal when another member has taken over the present one before."""
        # Threads that still work are waited for until the process has ended.
        leaving = StopWatch(mom.drain)
        while True:
            try:
                self._serve(with_generation(mom), listeners, reflexes, leaving, open_browser=open_browser)
                return
            except TakenOver as error:
                leaving.finish()
                log.warning("%s: it begins with a new journal", error)

    def _serve(
        self,
        mom: Config,
        listeners: Listeners,
        reflexes: list[Declaration],
        leaving: StopWatch,
        *,
        open_browser: bool,
    ) -> None:
        shared = SharedBroker.of(mom, listeners)
        if shared is not None:
            _check_journal(mom)
        make_directories(mom)
        if shared is not None and shared.configuration is not None:
            shared.configuration.restore()
        first_password = FirstPassword(mom.data / "first_password", write_private)
        _make_data(mom, first_password, is_copy=shared is not None and shared.configuration is not None)
        files = FileWatcher(mom.config_file, mom) if mom.config_file is not None else None
        link = None
        drawn = drawn_ports(mom, listeners)
        try:
            _read(files, mom)
            call_command("clearsessions")
            link = _login_link()
        except InvalidFiles as bad:
            raise CommandError(
                f"{mom.config_file} cannot be used, so the broker does not start:\n{bad}"
            ) from bad
        except OperationalError as error:  # a full disk: messages are still served
            self.stderr.write(f"the configuration cannot be changed now, so there is no login link: {error}")
        programs = HostPrograms.of(mom)
        password = first_password.await_use()
        logins = snapshot.make_logins(mom.anonymous)
        local = LocalAccess(mom, logins)
        connections.close_all()
        # Half a second of imports, which would otherwise stop the loop at the first page.
        get_resolver().check()

        def ready(ports: Ports) -> None:
            welcome = Welcome(mom, ports, password, first_password.path, link)
            at_terminal = self.stdout.isatty()
            try:
                local.ready()
                welcome.leave_files(at_terminal=at_terminal)
                if programs is not None:
                    programs.ready(welcome)
            except OSError as error:  # a full disk: messages are still served
                log.warning("the address of the broker cannot be written to %s: %s", mom.data, error.strerror)
            self.stdout.write("\n".join(welcome.lines(at_terminal=at_terminal)))
            self.stdout.flush()
            if open_browser:
                # A browser in a terminal keeps its caller waiting.
                Thread(target=webbrowser.open, args=[welcome.page], daemon=True).start()

        def on_standby(ports: Ports) -> None:
            nonlocal link, password
            link = password = None  # the accounts are those of the active broker from now on
            welcome = Welcome(mom, ports, None, first_password.path, None)
            welcome.leave_files(at_terminal=False)
            self.stdout.write("\n".join(welcome.standby_lines()))
            self.stdout.flush()

        fd_limits.raise_limit()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        # The caller has disabled the garbage collector, which would scan all imports repeatedly.
        gc.freeze()
        gc.enable()
        follow = partial(snapshot.follow, logins.policy, logins.take_used)
        following = files.following() if files is not None else nullcontext()
        with following, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            site = process.Site(
                app=partial(_site, files),
                follow=follow,
                keep=audit_sources.keep,
                refresh=partial(_refresh, logins),
                document=api.document(),
                pipeline=DatabaseStore(),
                make_poster=_make_worker_poster if mom.channel_layer is not None else None,
                reflexes=reflexes,
                configuration=ClusterConfiguration() if mom.cluster_port is not None else None,
                settings=ProcessSettings() if mom.cluster_url is not None else None,
                can_restart=self.can_restart,
            )
            running = process.run(
                mom,
                logins,
                listeners,
                site,
                ready=ready,
                on_standby=on_standby,
                mirror=shared.mirror if shared is not None else None,
                replicator=shared.replicator() if shared is not None else None,
            )
            try:
                if runner.run(running):
                    self.restart_options = drawn
            finally:
                if self._ends_the_process:
                    leaving.begin()
                local.stopped()
                if programs is not None:
                    programs.stopped()


def _make_worker_poster() -> WorkerPoster:
    return WorkerPoster(channel_layer.ConfiguredLayer())


def _refresh(logins: Logins) -> None:
    logins.reload(snapshot.read_policy(logins.policy.anonymous, logins.policy))
    connections.close_all()


def _check_console() -> None:
    try:
        console_files.check()
    except ImproperlyConfigured as error:
        raise CommandError(f"the broker does not start: {error}") from error


def _reflexes_of(mom: Config) -> list[Declaration]:
    """The reflexes of the file. Raises CommandError for one that cannot be used."""
    try:
        found = cnf.read(mom.reflex_file) if mom.reflex_file is not None else []
    except cnf.CnfError as error:
        raise CommandError(f"the reflexes cannot be used, so the broker does not start:\n{error}") from error
    if mom.reflex_path is not None and not mom.reflex_path.is_dir():
        raise CommandError(
            f"reflex-path is {mom.reflex_path}, which is no directory; name the one of the modules"
        )
    return found


def _check_journal(mom: Config) -> None:
    """Raise JournalError for another shared journal than before. One that cannot be reached is waited for."""
    try:
        journal_identity.check(mom)
    except Unreachable as error:
        log.warning("the journal cannot be reached now: %s", error)


def _warn_of_files(mom: Config) -> None:
    """Messages of before the journal was shared would seem to be lost."""
    directory = mom.data / "journal"
    if any(directory.glob("*.seg")):
        log.warning(
            "the journal in %s is not used, since the journal is shared; copy its messages with `mom journal "
            "copy %s ADDRESS` into an empty shared journal, or delete it",
            directory,
            mom.data,
        )


def _make_data(mom: Config, first_password: FirstPassword, *, is_copy: bool) -> None:
    """The data directory with its key and its configuration, and an administrator. Raises CommandError."""
    try:
        mom.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        _close_to_others(mom.data)
        configuration_copy.mark(mom.data, is_copy=is_copy)
        str(settings.SECRET_KEY)  # made when it is first needed
        configuration_tables.upgrade()
        pipeline_database.upgrade()
        _overwrite_leftovers()
        for bridge in bridges.reseal():
            log.error(
                "the password of bridge %s cannot be read, and it does not connect: %s", bridge, Unreadable()
            )
        for callback in callbacks.reseal():
            log.error(
                "the secret of callback %s cannot be read, and it is not used: %s", callback, Unreadable()
            )
        actions.ensure_admin(mom.admin_password, first_password.keep)
    except OSError as error:
        raise CommandError(
            f"the data directory cannot be used: {error.strerror}\n  where: {error.filename or mom.data}"
        ) from error
    except OperationalError as error:
        raise CommandError(trouble(error, mom.data)) from error


def _overwrite_leftovers() -> None:
    try:
        overwrite_leftovers()
    except OperationalError as error:  # a full disk: the next start tries again
        log.warning("what was removed from the configuration may still be in its file: %s", error)


def _close_to_others(data: Path) -> None:
    try:
        closed = close_to_others(data)
    except OSError as error:
        log.warning("%s can be read by other users, and that cannot be changed: %s", error.filename, error)
        return
    if closed:
        log.warning(
            "%d files of %s could be read by other users, as %s; now they cannot",
            len(closed),
            data,
            closed[0].name,
        )


def _site(files: FileWatcher | None, running: node.Node) -> Site:
    """The site of a node, which hears from now on what becomes of its files."""

    def on_reload(reload: Reload) -> None:
        notify = partial(running.files_read, reload.summary(), refused=reload.outcome == REFUSED)
        running.loop.call_soon_threadsafe(notify)

    def end(key: str, **_: Any) -> None:
        running.loop.call_soon_threadsafe(running.end_session, key)

    if files is not None:
        files.on_reload = on_reload
    session_ended.connect(end, weak=False)
    record = running.features.cluster.record()
    if record is not None:
        ProposedChanges(partial(_propose, running, record))
    return Site(running, files=files)


def _propose(running: node.Node, record: ReplicatedRecord, changes: list[Change]) -> None:
    """Propose changes to the cluster. It answers within `_PROPOSAL_S`, for better or worse."""
    ask(running, record.propose(changes), within_s=_PROPOSAL_S)


def _read(files: FileWatcher | None, mom: Config) -> None:
    """Carries out what files of configuration say. Raises Bad."""
    if files is not None:
        files.start()
    elif count := release(actions.SYSTEM, owner_of(mom)):
        log.warning(
            "no config_file is given: %d resources of the former file stay, and can be changed here now",
            count,
        )


def _login_link() -> str | None:
    """The secret of a one-time link for admin, where there is one who may use it."""
    admin = User.objects.filter(username=actions.ADMIN, is_active=True).first()
    return actions.create_login_link(admin) if admin is not None else None
