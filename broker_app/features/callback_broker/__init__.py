"""The callback broker: a broker on the machine of clients, which remote brokers notify of their messages.

| module | part |
|---|---|
| `callback_broker` | what a node has in addition, if it is a callback broker |
| `remote_broker` | one remote broker with its mirrors, whose connections share the queues of services |
| `origin_connection` | the connection to one remote broker, with one login |
| `origin_link` | one WebSocket to it |
| `pending_queue` | the messages of one service that wait at its origin |
| `callback_messages` | the local messages that stand for them |
| `original_messages` | originals replace them when they are delivered, and are settled at the origin |
"""
