"""ASGI middleware: limits, API keys, metrics and headers, for any ASGI application."""
