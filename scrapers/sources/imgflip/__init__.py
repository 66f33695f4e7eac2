"""Imgflip: templates from lists, searches or by name, and the memes of each with their captions."""
