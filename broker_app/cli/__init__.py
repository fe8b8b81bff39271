"""The command line `mom`: runs a broker, uses one, operates one.

Talks to brokers by REST and STOMP alone, so everything but `up`, `token`, `journal` and parts of `doctor`
works on remote ones. Data goes to stdout, talk to stderr. What is slow to load is imported in the command
that needs it, because a command line must start at once.
"""
