"""Tools for journals that no broker serves: inspect, repair, copy, hold."""
