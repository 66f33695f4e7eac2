"""Supported image searches by name."""

from memeloom.scrapers.sources.images import bing, google

ENGINES = {engine.name: engine for engine in (bing.ENGINE, google.ENGINE)}
