"""Choosing among written captions: votes, coherence and novelty, learned from the texts of a dataset by NumPy alone."""
