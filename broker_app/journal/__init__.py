"""The journal: the ordered, durable log of everything that must survive.

Promises: a batch is there whole or not at all; positions are consecutive and never reused; what
`done(None)` reported is on the disk. Owns: files, places, space, the order of recovery.
Never: knows what a record means, beyond "a PUBLISHED record is read back later by its position".

`port` holds the promises, `memory` and `segments` keep them, `inspect` reads a journal from outside.
"""
