"""Captions for HTTP requests: what is captioned, how, and the model that writes."""
