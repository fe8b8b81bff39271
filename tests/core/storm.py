"""Storms: random commands of several clients, decided in random runs, with all laws checked after each run.

`python -m tests.core.storm SEED` shows what happens in one of them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random
from typing import Any

from broker_app.base.refused import Refused
from broker_app.core import commands as c
from broker_app.core.client_address import address_of
from broker_app.core.delivery.unsettled import release_body
from broker_app.core.durability.records import Terms
from broker_app.core.durability.snapshot import SnapshotBuilder
from broker_app.core.inspection.browse import browse
from broker_app.core.message import OVERHEAD_BYTES, DeliveryOptions, Envelope
from broker_app.core.policy import PAUSES, DestinationPolicy, Policies
from broker_app.core.remote.sync_queue import SYNC_ADDRESS
from tests.core.bulk_producers import Part, Producer
from tests.core.choices import COLOURS, SELECTORS
from tests.core.home_brokers import Home, Sent
from tests.core.ledger import Ledger, Session, has_expired
from tests.core.mirror import Mirror
from tests.core.stage import Stage, interrupted

QUEUES = ("/queue/a", "/queue/b", "/queue/a.dead")
FORWARDED = "/queue/storeAndForward:b/queue/q"
#: producers of batches, and users who own them
PRODUCERS, OWNERS = ("query-1", "query-2"), ("spark", "spark", "spark", "spark", "mallory")
#: (sender, source) of what other brokers forward
HOMES = (("home~1", "q"), ("home~2", "q"), ("home~1", "storeAndForward:b/queue/q"))
TEMPORARY = ("/temp-queue/0", "/temp-queue/1")
TOPICS = ("/topic/t", "/topic/t.x", "/topic/t.x", "/topic/t.x.z", "/temp-topic/t")
FILTERS = ("/topic/t.x", "/topic/t.x", "/topic/t.*", "/topic/t.>", "/topic/#", "/topic/*.x", "/temp-topic/t")
ILLEGAL = ("/queue/", "/nowhere/a", "/queue/ a")
WILD = ("/topic/t.*", "/topic/>")

NAMES = ("d", "e")

WEIGHTS = {
    "publish": 30,
    "subscribe": 24,
    "settle": 18,
    "give_back": 12,
    "set_inner_ack": 4,
    "unsubscribe": 4,
    "pause": 8,
    "resume": 12,
    "disconnect": 3,
    "begin": 8,
    "enlist": 16,
    "commit": 8,
    "abort": 1,
    "extend": 2,
    "purge": 2,
    "transfer": 5,
    "deliver_chosen": 5,
    "set_credit": 3,
    "insert": 1,
    "forget": 2,
    "found": 1,
    "answer": 1,
    "begin_flow": 6,
    "forward": 14,
    "break_flow": 1,
    "bulk": 12,
    "forget_bulk": 1,
    "reconfigure": 3,
    "remove": 2,
}
KINDS = list(WEIGHTS)
#: A batch that comes behind the end of its producer would rightly be published again. A client settles what
#: it has chosen in a later run, when it knows the tags.
PLACES = {kind: ("reconfigure", "remove", "purge", kind).index(kind) for kind in WEIGHTS}
PLACES |= {"deliver_chosen": 8, "forget_bulk": 9}


class Storm:
    """One storm; the same `seed` gives the same commands."""

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.random = random = Random(seed)
        self.trace = trace
        self.stage = Stage(
            window=random.choice((1, 3, 3, 5)),
            memory_bytes=random.choice((2, 6, 100)) * OVERHEAD_BYTES,
            policy=DestinationPolicy(
                max_attempts=random.choice((2, 3, 3)),
                retry_delay_ms=random.choice((0, 0, 300, 1_000)),
                max_retry_delay_ms=1_500,
                dead_letter_expired=random.random() < 0.3,
            ),
            delayed_redeliveries=random.choice((1, 2, 100)),
            topic_pending=random.choice((2, 4, 4)),
            fetch_messages=random.choice((1, 2, 4)),
            fetch_bytes=random.choice((16, 400, 1 << 20)),
            subscriptions_per_peer=3,
            transactions_per_peer=2,
            commands_per_transaction=4,
            bytes_per_transaction=3 * OVERHEAD_BYTES,
            bytes_of_transactions=random.choice((5, 100)) * OVERHEAD_BYTES,
            idle_queue_ms=3_000,
            known_matches=random.choice((2, 3, 4_096)),
            scan_batch=random.choice((1, 3, 4_096)),
            idle_groups=random.choice((1, 2, 10_000)),
            unused_selector_ms=random.choice((500, 3_000)),
        )
        if seed % 2:
            self.stage.deadline = interrupted(seed)
        self.stage.loading = False
        # Each storm has its own weights and its own few destinations.
        self.weights = [weight * random.choice((0.2, 1, 1, 4)) for weight in WEIGHTS.values()]
        self.queues = random.choice(
            (QUEUES, QUEUES, QUEUES[:1], QUEUES[::2], (), (FORWARDED, *QUEUES[:1]), (FORWARDED,))
        )
        self.filters = random.choice((FILTERS, FILTERS, FILTERS[:1], ())) if self.queues else FILTERS[:3]
        self.topics = TOPICS if self.filters else ()
        self.modes = random.choice(
            ((c.AUTO, c.AUTO, c.CLIENT, c.INDIVIDUAL), c.ACK_MODES[1:], c.ACK_MODES[:1])
        )
        self.looks = random.choice((("look", "look", "other", None), ("look",)))
        self.priorities = random.choice(((4, 4, 4, 0, 9), (4,)))
        self.delays = random.choice(((0,), (0, 0, 0, 700, 2_500), (0, 400, 400, 9_000)))
        #: retention of topics, once an administrator has set it
        kept = DestinationPolicy(
            retention_ms=random.choice((0, 2_000, 60_000)), retention_bytes=random.choice((0, 0, 150, 400))
        )
        self.retention = {random.choice(("/topic/t.", "/topic/")): kept} if random.random() < 0.6 else {}
        #: how many of the subscriptions to topics have a name
        self.naming = random.choice((0, 0.5, 0.5, 1))
        self.dedup_ids = random.choice((("",), ("",), ("", "", "1", "2"), ("1", "2", "3", "4")))
        self.persistence = random.choice((0.75, 0.75, 1, 0.2))
        #: how many subscriptions have a selector or are exclusive, and how many messages have a group
        self.choosiness = random.choice((0, 0, 0.4, 0.8))
        self.exclusiveness = random.choice((0, 0, 0.3))
        self.groups = random.choice((((),) * 3, ((),) * 3, ((), b"g1", b"g2"), (b"g1", b"g2", b"g3")))
        self.ledger = Ledger(self.stage)
        #: a broker that follows, and when it is checked
        self.mirror, self.chance = Mirror(self.stage), Random(seed)
        self.releases = self.chance.random() < 0.4
        targets = [address for address in self.queues if not address.endswith(".dead")]
        self.ledger.homes = [Home(*names, random.choice(targets)) for names in HOMES if targets]
        self.ledger.producers = {name: Producer(name) for name in PRODUCERS}
        self._listen()
        self.sessions = self.ledger.sessions
        self.envelopes = [self._draw_envelope() for _ in range(8)]
        self.serial = self.token = self.joined = 0
        #: flows that begin in the run that is drawn: their senders wait for the mark
        self.beginning: set[tuple[Session, str]] = set()
        self.snapshot = (self.stage.take_snapshot(), 0)
        self.freezing: tuple[SnapshotBuilder, int] | None = None

    def blow(self, commands: int, *, drain: bool = True) -> None:
        """Draw about so many commands, check that the journal restores everything, and consume what waits
        unless `drain` is false."""
        random = self.random
        drawn = 0
        while drawn < commands:
            while len(self.sessions) < 2 or (len(self.sessions) < 4 and random.random() < 0.2):
                self.joined += 1
                client = self.stage.client()
                if self.joined % 4:
                    client.peer.client = address_of(f"u{self.joined % 3}", f"c{self.joined}")
                self.sessions.append(Session(client, self.joined))
            run = self._draw_run()
            drawn += len(run)
            if random.random() < 0.5:
                self.stage.now_us += random.choice((1, 1_000, 400_000, 1_500_000, 9_000_000))
            self._decide(run)
            self.sessions[:] = [session for session in self.sessions if not session.leaving]
            self._snapshot()
            if random.random() < 0.03:
                self._restart()
        self._restart()
        if drain:
            self._drain()

    def _snapshot(self) -> None:
        """Sometimes begin a snapshot, which is taken in steps while commands are decided."""
        if self.freezing is None:
            if self.random.random() < 0.15:
                self.freezing = (SnapshotBuilder(self.stage.broker), len(self.stage.batches))
            return
        freezing, batches_before = self.freezing
        if freezing.step(self.random.choice((1, 1, 50))):
            self.snapshot = (b"".join(freezing.parts()), batches_before)
            self.freezing = None

    def _decide(self, run: list[Any]) -> None:
        if self.trace:
            print(f"at {self.stage.now_ms} decide", *map(self._describe, run), sep="\n    ")
        self.ledger.decide(run)
        self._release_bodies()
        self.mirror.follow()
        if self.chance.random() < 0.05:
            self.mirror.check()

    def _release_bodies(self) -> None:
        """Sometimes release bodies of unsettled deliveries, as if they were large."""
        for session in self.sessions if self.releases else ():
            for subscription, message in session.peer.unsettled.values():
                if self.chance.random() < 0.5:
                    release_body(subscription.queue, message)

    def _restart(self) -> None:
        if self.trace:
            print("restart")
        self.ledger.check_replay(*self.snapshot)
        self.mirror.check()
        self.freezing = None
        if self.chance.random() < 0.5:
            self.stage.restart(self.mirror.take_over())
            self.mirror = Mirror(self.stage)
        else:
            self.stage.restart()
        self._listen()
        self.ledger.restarted()

    def _listen(self) -> None:
        """Subscribe to the system topics; the ledger checks their events."""
        self.stage.client().subscribe("/topic/$mom.>", c.AUTO)

    def _read_history(self) -> None:
        """Replay all histories; the ledger checks that nothing is missing."""
        session = Session(self.stage.client(), 0)
        self.sessions.append(session)
        token = self._next_token()
        self._decide([c.Subscribe(session.peer, "h", "/topic/>", c.AUTO, start="first", receipt=token)])
        while self.stage.fetches:
            self._decide([self.stage.loaded(self.stage.fetches.pop(0))])
        subscription = session.peer.subscriptions.get("h")
        assert session.closed or (subscription is not None and subscription.replay is None)

    def _drain(self) -> None:
        """Deliver all remaining messages to one client, in order."""
        stage, ledger = self.stage, self.ledger
        self._read_history()
        stage.now_us += 1_000_000
        self._decide([c.Reconfigure(Policies())])
        assert not any(history.blocks for history in stage.broker.histories.histories.values())
        self._finish_batches()
        while stage.broker.scheduler.schedules or stage.broker.unsettled.delayed.peer.unsettled:
            stage.now_us += 3_000_000
            self._decide([stage.loaded(stage.fetches.pop(0))] if stage.fetches else [])
        session = Session(stage.client(), 0)
        self.sessions.append(session)
        for number, address in enumerate(address for address in stage.queues if address != SYNC_ADDRESS):
            if number % 3 == 0:
                session = Session(stage.client(), 0)
                self.sessions.append(session)
            subscribe = c.Subscribe(
                session.peer, address, address, c.CLIENT, 1_000, receipt=self._next_token()
            )
            if address in stage.broker.destinations.named:
                named = stage.broker.destinations.named[address]
                subscribe.address, subscribe.shared = named.terms.filter, named.terms.shared
                subscribe.selector = named.terms.selector
                subscribe.name, subscribe.durable = named.name, True
            self._decide([subscribe])
        while stage.fetches:
            self._decide([stage.loaded(stage.fetches.pop(0))])
        left = [live.expires_ms for live in ledger.live.values()]
        assert not any(has_expired(expires_ms, stage.now_ms) for expires_ms in left)
        held = [message for session in self.sessions for _, message in session.held.values()]
        assert len(left) == sum(message.recorded for message in held), "everything arrives in the end"

    def _finish_batches(self) -> None:
        """Complete the batches that were begun, and send all of them again: nothing is published twice."""
        session = Session(self.stage.client(), 0)
        self.sessions.append(session)
        for producer in self.ledger.producers.values():
            if (rest := producer.unfinished()) is not None:
                self._decide([command := self._bulk(session, producer, rest, producer.owner)])
                assert command.receipt in self.ledger.answers, "what was begun is completed"
            again = [Part(batch, 0, len(batch.rows)) for batch in producer.begun]
            commands = [self._bulk(session, producer, part, producer.owner) for part in again]
            if commands:
                self._decide(commands)
            assert all(command.receipt in self.ledger.refusals for command in commands)

    # ------------------------------------------------------------------ drawing

    def _draw_run(self) -> list[Any]:
        random, fetches = self.random, self.stage.fetches
        run: list[Any] = []
        self.beginning.clear()
        kinds = random.choices(KINDS, self.weights, k=random.choice((1, 2, 4, 8)))
        cast = random.sample(self.sessions, min(len(self.sessions), random.choice((1, 2, 4))))
        # The ledger knows what is removed, and from whom it is held back, only at the beginning of a run.
        for kind in sorted(kinds, key=PLACES.get):  # type: ignore[arg-type]
            session = random.choice(cast)
            if session.closed:
                kind = "disconnect"
            if not session.leaving:
                run.append(getattr(self, "_draw_" + kind)(session))
        if fetches and random.random() < 0.6:
            first = sum(isinstance(command, c.Purge | c.Reconfigure | c.DeleteQueue) for command in run)
            loaded = self.stage.loaded(fetches.pop(random.randrange(len(fetches))))
            run.insert(random.randint(first, len(run)), loaded)
        return run

    def _draw_envelope(self, address: str = "") -> Envelope:
        random = self.random
        expiring = random.random()
        group = random.choice(self.groups) or b""
        block = b"h:1\ncolour:%b\n" % random.choice(COLOURS) + random.choice((b"", b"size:3\n", b"size:5\n"))
        anywhere = (*self.queues * 4, *self.topics * 2, *TEMPORARY, random.choice(ILLEGAL + WILD))
        return Envelope(
            address or random.choice(anywhere),
            block + (b"group:%b\n" % group if group else b""),
            persistent=random.random() < self.persistence,
            priority=random.choice(self.priorities),
            ttl_ms=1_000 if expiring < 0.15 else 0,
            expires_ms=self.stage.now_ms + 2_500 if 0.1 < expiring < 0.2 else 0,
            options=self._draw_special(group.decode()),
        )

    def _draw_special(self, group: str) -> DeliveryOptions | None:
        random, delay_ms = self.random, self.random.choice(self.delays)
        dedup_id = random.choice(self.dedup_ids)
        if not (delay_ms or dedup_id or group):
            return None
        due_ms = self.stage.now_ms + delay_ms if delay_ms else 0
        return random.choice(
            (DeliveryOptions(delay_ms, dedup_id, group), DeliveryOptions(0, dedup_id, group, due_ms))
        )

    def _next_token(self) -> int:
        self.token += 1
        return self.token

    def _body(self) -> bytes:
        self.serial += 1
        return b"%d:%s" % (self.serial, b"." * self.random.choice((0, 0, 7, 40)))

    def _draw_publish(self, session: Session) -> c.Publish:
        random = self.random
        chosen = [random.choice(self.envelopes) for _ in range(random.choice((1, 1, 2)))]
        envelopes = [envelope for envelope in chosen for _ in range(random.choice((1, 1, 3)))]
        entries = [(envelope, self._body(), self._next_token()) for envelope in envelopes]
        return c.Publish(session.peer, entries)

    def _draw_subscribe(self, session: Session) -> c.Subscribe:
        random = self.random
        subscribe = c.Subscribe(
            session.peer,
            random.choice("123"),
            random.choice((*self.queues * 4, *self.filters * 2, *TEMPORARY, random.choice(ILLEGAL))),
            random.choice(self.modes),
            random.choice((1, 1, 2, 5, random.choice((0, 3)))),
            render_key=random.choice(self.looks),
            lease_ms=random.choice((0, 0, 1_000)),
            receipt=self._next_token(),
        )
        if random.random() < (self.naming if "topic" in subscribe.address else 0.01):
            subscribe.name = random.choice(NAMES)
            subscribe.durable = random.random() < 0.7
            subscribe.shared = random.random() < 0.6
        elif random.random() < (0.4 if self.retention else 0.05):
            subscribe.start = self._draw_start()
        if random.random() < self.choosiness:
            subscribe.selector = random.choice((*SELECTORS, *SELECTORS, "colour = "))
        subscribe.exclusive = random.random() < self.exclusiveness
        subscribe.inner_ack = random.random() < 0.2
        return subscribe

    def _draw_set_inner_ack(self, session: Session) -> c.SetInnerAck | c.Pause:
        subscriptions = list(session.peer.subscriptions.values())
        if not subscriptions:
            return self._draw_pause(session)
        return c.SetInnerAck(self.random.choice(subscriptions), self.random.random() < 0.6)

    def _draw_start(self) -> str:
        random, stage = self.random, self.stage
        return random.choice(
            (
                *("first", "first", "first", "last", "now", "never"),
                f"seq:{random.randint(0, stage.broker.turn.next_position + 2)}",
                f"time:{stage.now_ms - random.choice((0, 1_000, 5_000))}",
            )
        )

    def _draw_tags(self, session: Session) -> list[int]:
        random, held = self.random, list(session.held)
        tags = random.sample(held, min(len(held), random.choice((1, 1, 2, 3))))
        if not tags or random.random() < 0.06:
            tags.append(random.randint(1, 9))
        return tags

    def _draw_settle(self, session: Session) -> c.Settle:
        receipt = self._next_token()
        tags, cumulative = self._draw_tags(session), self.random.random() < 0.3
        return c.Settle(session.peer, tags, cumulative, receipt, lenient=self.random.random() < 0.2)

    def _draw_give_back(self, session: Session) -> c.Return:
        receipt = self._next_token()
        reason = self.random.choice(("", "", "", "REJECTED"))
        return c.Return(
            session.peer,
            self._draw_tags(session),
            self.random.random() < 0.2,
            reason,
            "why",
            receipt,
            self.random.choice((0, 0, 0, 700)),
            lenient=self.random.random() < 0.2,
        )

    def _draw_unsubscribe(self, session: Session) -> c.Unsubscribe:
        id = self.random.choice([*session.interests, "1"])
        keep, forget = self.random.random() < 0.5, self.random.random() < 0.2
        return c.Unsubscribe(session.peer, id, self._next_token(), keep, forget)

    def _draw_forget(self, session: Session) -> c.DeleteSubscription:
        return c.DeleteSubscription(session.peer, self.random.choice(NAMES), receipt=self._next_token())

    def _draw_found(self, session: Session) -> c.CreateSubscription:
        subscribe = self._draw_subscribe(session)
        terms = Terms(subscribe.address, subscribe.selector, subscribe.shared, session.peer.user)
        return c.CreateSubscription(session.peer, self.random.choice(NAMES), terms, self._next_token())

    def _draw_pause(self, session: Session) -> c.Pause:
        return c.Pause(session.peer)

    def _draw_resume(self, session: Session) -> c.Resume:
        return c.Resume(session.peer)

    def _draw_disconnect(self, session: Session) -> c.Disconnect:
        session.leaving = True
        return c.Disconnect(session.peer, self._next_token())

    def _draw_begin(self, session: Session) -> c.Begin:
        return c.Begin(session.peer, self.random.choice("xyz"), self._next_token())

    def _draw_transaction(self, session: Session) -> str:
        return self.random.choice([*session.transactions, "x"])

    def _draw_enlist(self, session: Session) -> c.Enlist:
        settling = (self._draw_settle, self._draw_settle, self._draw_give_back) if session.held else ()
        draw = self.random.choice((self._draw_publish, *settling))
        return c.Enlist(session.peer, self._draw_transaction(session), draw(session), self._next_token())

    def _draw_commit(self, session: Session) -> c.Commit:
        return c.Commit(session.peer, self._draw_transaction(session), self._next_token())

    def _draw_abort(self, session: Session) -> c.Abort:
        return c.Abort(session.peer, self._draw_transaction(session), self._next_token())

    def _draw_extend(self, session: Session) -> c.Extend:
        lease_ms = self.random.choice((500, 5_000))
        return c.Extend(session.peer, self._draw_tags(session), lease_ms, self._next_token())

    def _draw_purge(self, session: Session) -> c.Purge:
        return c.Purge(session.peer, self.random.choice((*self.queues, "/queue/none")), self._next_token())

    def _draw_transfer(self, session: Session) -> c.Transfer:
        random = self.random
        source = random.choice((*self.queues, "/queue/none", "/queue/d.dead"))
        there = [item.position for item in browse(self.stage.broker, source, limit=100) or ()]
        if source in self.stage.broker.scheduler.schedules:
            there += self.stage.broker.scheduler.schedules[source].positions()
        chosen = [*random.sample(there, min(len(there), random.choice((1, 2, 4)))), random.randint(1, 9)]
        random.shuffle(chosen)
        target = random.choice(("", c.ORIGIN, *QUEUES, *QUEUES, random.choice((*ILLEGAL, *TEMPORARY))))
        return c.Transfer(
            session.peer,
            source,
            [c.Chosen(position, self.stage.bodies.get(position)) for position in chosen],
            target,
            keep=bool(target) and random.random() < 0.2,
            revive=target == c.ORIGIN or random.random() < 0.2,
            receipt=self._next_token(),
        )

    def _draw_deliver_chosen(self, session: Session) -> c.DeliverChosen:
        random = self.random
        source = random.choice((*self.queues, "/queue/none"))
        there = [item.position for item in browse(self.stage.broker, source, limit=100) or ()]
        chosen = [*random.sample(there, min(len(there), random.choice((1, 2, 4)))), random.randint(1, 9)]
        token = self._next_token()
        return c.DeliverChosen(
            session.peer,
            f"chosen {token}",
            source,
            [c.Chosen(position, self.stage.bodies.get(position)) for position in chosen],
            random.choice((0, 0, 1_000)),
            token,
        )

    def _draw_set_credit(self, session: Session) -> c.SetCredit:
        id, credit = self.random.choice([*session.interests, "1"]), self.random.choice((0, 1, 2, 5))
        return c.SetCredit(session.peer, id, credit, self._next_token())

    def _draw_insert(self, session: Session) -> c.Insert:
        envelope = self.random.choice(self.envelopes)
        entries = [(b"%036d" % self._next_token(), envelope, self._body()) for _ in range(2)]
        return c.Insert(session.peer, envelope.address, entries, self._next_token())

    def _draw_begin_flow(self, session: Session) -> c.BeginFlow | c.BridgeConnected:
        if not self.ledger.homes:
            return c.BridgeConnected(session.peer)
        home, id = self.random.choice(self.ledger.homes), self.random.choice("123")
        self.beginning.add((session, id))
        names = home.sender, home.source, home.target
        return c.BeginFlow(session.peer, id, *names, self._next_token())

    def _draw_forward(self, session: Session) -> c.Forward | c.BeginFlow | c.BridgeConnected:
        if not session.sender_flows and self.random.random() < 0.9:
            return self._draw_begin_flow(session)
        flow = self.random.choice([*session.sender_flows, *session.sender_flows, "9"])
        sender_flow = session.sender_flows.get(flow)
        if sender_flow is None or (session, flow) in self.beginning:
            return c.Forward(session.peer, flow, [], [])
        home = sender_flow.home
        for _ in range(self.random.choice((0, 1, 2))):
            envelope = self._draw_envelope(home.target)
            position = home.next_position + self.random.choice((0, 0, 4))
            home.outbox.append(Sent(position, envelope, self._body()))
        run = sender_flow.draw(self.random)
        entries = [(sent.envelope, sent.body, self._next_token()) for sent in run]
        return c.Forward(session.peer, flow, entries, [sent.position for sent in run])

    def _draw_break_flow(self, session: Session) -> c.BreakFlow:
        flow = self.random.choice([*session.sender_flows, "9"])
        return c.BreakFlow(session.peer, flow, Refused("not-allowed", "no"), self._next_token())

    def _draw_bulk(self, session: Session) -> c.PublishBulk:
        random = self.random
        producer = self.ledger.producers[random.choice(PRODUCERS)]
        targets = (*self.queues, *self.topics[:4]) or TOPICS[:1]
        if random.random() < 0.1:
            targets = (*targets, *TEMPORARY, *ILLEGAL, *WILD)
        envelopes = [self._draw_envelope(random.choice(targets)) for _ in range(random.choice((0, 1, 2, 4)))]
        part = producer.draw(random, [(envelope, self._body()) for envelope in envelopes])
        usual, other = producer.owner or random.choice(OWNERS), random.choice(OWNERS)
        return self._bulk(session, producer, part, random.choice((usual, usual, usual, other)))

    def _bulk(self, session: Session, producer: Producer, part: Part, owner: str) -> c.PublishBulk:
        """The command that publishes a part of a batch."""
        needs: dict[str, c.Need] = {}
        for envelope, body in part.batch.rows if not part.start else ():
            size, known = len(body), needs.get(envelope.address, c.Need(0, 0, 0))
            needs[envelope.address] = known.plus(c.Need(1, size, size))
        token = self._next_token()
        self.ledger.parts[token] = part
        return c.PublishBulk(
            *(session.peer, producer.name, owner, part.batch.number, part.rows, needs),
            *(part.start, part.is_last, token),
        )

    def _draw_forget_bulk(self, session: Session) -> c.DeleteBulkProducer:
        return c.DeleteBulkProducer(session.peer, self.random.choice(PRODUCERS), self._next_token())

    def _draw_reconfigure(self, session: Session) -> c.Reconfigure:
        random = self.random
        policies = [replace(self.stage.policy, paused=paused) for paused in PAUSES]
        return c.Reconfigure(
            Policies(
                replace(self.stage.policy, auto_create=random.random() < 0.9),
                {address: random.choice(policies) for address in self.queues if random.random() < 0.4},
                ({"/queue/": random.choice(policies)} if random.random() < 0.2 else {}) | self.retention,
            )
        )

    def _draw_remove(self, session: Session) -> c.DeleteQueue:
        address = self.random.choice((*self.queues, "/queue/none"))
        return c.DeleteQueue(session.peer, address, self.random.random() < 0.6, self._next_token())

    def _draw_answer(self, session: Session) -> c.Answer:
        return c.Answer(session.peer, self._next_token())

    # ------------------------------------------------------------------ traces

    def _describe(self, command: Any) -> str:
        if isinstance(command, c.Loaded):
            return f"Loaded {command.address} {command.priority} {list(command.positions)}"
        if isinstance(command, c.Reconfigure):
            return str(command)
        if isinstance(command, c.SetInnerAck):
            return f"SetInnerAck {command.subscription.id} {command.subscription.address} {command.on}"
        numbers = {session.peer: session.number for session in self.sessions}
        facts = [
            f"{name}={getattr(command, name)!r}"
            for name in command.__slots__
            if name not in ("peer", "user", "entries", "needs", "command", "chosen", "refusal")
        ]
        if isinstance(command, c.Publish):
            facts = [
                f"{e.address} p{e.priority} {body!r}" + " transient" * (not e.persistent)
                for e, body, _ in command.entries
            ]
        if isinstance(command, c.PublishBulk):
            facts += [f"{e.address} {body!r}" for e, body in command.entries]
        if isinstance(command, c.Forward):
            facts += [f"{e.address} {body!r}" for e, body, _ in command.entries]
        if isinstance(command, c.Transfer | c.DeliverChosen):
            facts.append(f"positions={[chosen.position for chosen in command.chosen]}")
        inner = f" ({self._describe(command.command)})" if isinstance(command, c.Enlist) else ""
        return f"client {numbers[command.peer]}: {type(command).__name__} {' '.join(facts)}{inner}"


def storm(seed: int, *, trace: bool = False) -> None:
    """Blow storm number `seed`, of 20 to 60 commands."""
    Storm(seed, trace=trace).blow(20 + seed % 41)


if __name__ == "__main__":
    storm(int(sys.argv[1]), trace=True)
