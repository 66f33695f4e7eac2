"""A plain character-level transformer decoder, whose size follows from one number, its depth."""
