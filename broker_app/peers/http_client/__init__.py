"""The HTTP client of the broker, for receivers that may be slow, broken or hostile.

Webhooks, alerts and questions to the provider of logins are sent by `client`: each exchange is bounded in
time, in bytes and in what it takes of a turn of the loop. A `connection` writes requests, and an `answer` is
parsed of what comes back; `turn_share` divides a turn among all that answer. `exchange` has requests and
answers as values.
"""
