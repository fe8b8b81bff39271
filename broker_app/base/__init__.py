"""Parts that all others use: refusals, durations, deadlines, and the tables of events, states and topics."""
