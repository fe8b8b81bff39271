"""Bridges: what waits in store-and-forward queues goes to remote brokers, once and in order.

Start at `supervisor`. A pipe is one connection to one remote broker, a flow one queue emptied over it.
"""
