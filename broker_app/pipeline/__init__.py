"""The data pipeline as the console knows it: its runs, and the statistics that it has computed.

It has a database of its own, because it changes all the time: that of the configuration is versioned, and
replicated whole to mirrors. Brokers that share a database share this one, too.
"""
