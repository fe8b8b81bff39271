"""The console's pages: plain HTML in one frame, with real forms. What is alive in them are islands.

Promises: every act works without JavaScript, says what it changes before and after, and can be undone.
Owns how configured things are shown and asked for. Never writes a model: `web.actions` does, for the API too.
"""
