"""The change record of a cluster: kept, written, propagated, and carried out at each broker."""
