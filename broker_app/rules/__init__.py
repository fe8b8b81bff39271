"""Authorization rules: `Rules(rules).decide(event)` returns whether an event is allowed, and by which rule.

Promises: no Django, no I/O, no clock; the first rule that matches decides, as if all were tried in order;
no condition takes more than linear time. Owns the grammar of conditions and what they mean.
Never knows sessions, tokens or models: an `Event` holds all facts that a condition may ask for.
"""
