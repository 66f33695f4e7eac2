"""Memes over HTTP: drawn pictures, templates and the catalog, spoken as memegen's and Imgflip's clients expect."""
