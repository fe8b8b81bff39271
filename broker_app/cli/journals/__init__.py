"""Commands of `mom journal`: the journal of a stopped broker."""
