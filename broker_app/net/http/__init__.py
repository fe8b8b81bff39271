"""Parts that all HTTP listeners share: body limit, base path, proxy headers, origin check, tracing."""
