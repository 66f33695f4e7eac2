"""A model that counts: Kneser-Ney estimates over several kinds of context, mixed; NumPy alone, no network."""
