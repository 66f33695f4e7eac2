"""A model that learns from every character of a caption in one pass: hashed contexts and a gated linear recurrence."""
