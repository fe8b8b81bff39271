"""Messages in their queues: lanes, schedules, dead letters, and what an operator moves."""
