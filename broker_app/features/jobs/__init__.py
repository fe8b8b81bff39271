"""Jobs: operations on many messages, by id or by filter, that are planned, shown, paced and can be stopped.

Owns plans, jobs, their results and their files. A client of the engine like any other: it chooses
positions and asks the core to move them; the core decides about each. Never knows HTTP or Django.
"""
