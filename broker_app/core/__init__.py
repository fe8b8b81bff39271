"""The broker as a pure function: `Broker.decide(commands, now_us) -> Outcome`.

Promises: no I/O, no clock, no randomness; replaying the records of all outcomes rebuilds the same
broker. Owns destinations, subscriptions, unsettled deliveries, transactions and timers.
Never imports asyncio, Django, the journal's backends or the network.
"""
