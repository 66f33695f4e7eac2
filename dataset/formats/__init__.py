"""File formats of a dataset: each writes and reads records, and locates damage."""
