"""Decoding of captions from probabilities; every method works with every kind of model."""
