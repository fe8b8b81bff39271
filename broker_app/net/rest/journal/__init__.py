"""Endpoints for programs that read the journal, and the cursors of these."""
