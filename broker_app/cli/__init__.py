"""The command line `mom`: runs a broker, uses one, operates one.

It uses only REST and STOMP, so all commands but `up`, `token`, `journal` and parts of `doctor` work with
remote brokers. Data goes to stdout, messages for the user to stderr. Slow modules are imported in the command
that needs them, because a command line must start at once.
"""
