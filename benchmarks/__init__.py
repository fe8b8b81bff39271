"""Measures the broker with mombench, next to RabbitMQ and ActiveMQ when they are installed.

`run` does the workloads W1 to W8, `backlog` the five-million backlog, `idle` the idle connections,
`peers` installs the peers. Results are kept in RESULTS.md.
"""
