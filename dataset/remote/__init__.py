"""Datasets in an object store: their work folder, their output, and verified local copies for readers."""
