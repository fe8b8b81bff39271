"""Callbacks: subscribers are called when messages arrive.

`arrival_feed` is what all of them share that are only notified; they take nothing from a queue. Subscribers
that messages are delivered to are ordinary consumers.
"""
