"""Pages of queues and topics, and of jobs on their messages."""
