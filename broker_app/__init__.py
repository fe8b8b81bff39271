"""MOM, the message broker. Rooms and who may import whom: ARCHITECTURE.md."""
