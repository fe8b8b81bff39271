"""Inputs of 1 MiB that ordinary users, and servers of strangers, may send to a broker, by plane."""
