"""Models that caption memes: the input pipeline, fitting, the model folder and generation."""
