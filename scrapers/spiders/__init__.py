"""Spiders, one module a source: which pages are asked for, and in which order."""
