"""Imgflip's API: templates, and memes drawn from forms."""
