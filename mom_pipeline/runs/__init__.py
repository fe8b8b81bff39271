"""Runs of jobs: the sources that each reads, and the places of its rows."""

JOBS = ("archive", "statistics", "reconcile", "replay", "compact")
