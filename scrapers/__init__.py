"""Scrapers: from the sites' pages, result grids and dumps to memes in the catalog."""
