"""The console's pages: plain HTML in one frame, with real forms; islands add live parts.

Every action works without JavaScript, shows its effect before and after, and can be undone. Models are never
written here: `web.actions` does that, for the API too.
"""
