"""Enhanced clusters: brokers whose journals are in one store take over those of members that fail. Decision
0030."""
