"""Captions for requests: one thread owns the model and writes for several requests at once."""
