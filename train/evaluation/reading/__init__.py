"""Captions of people and models, mixed, to be rated by readers who do not know who wrote which."""
