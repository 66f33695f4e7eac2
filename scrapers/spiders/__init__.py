"""Spiders, one module per source: which pages to request, and in which order."""
