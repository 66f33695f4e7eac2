"""Supported image searches by name."""

from memeloom.scrapers.pages import bing, google

ENGINES = {engine.name: engine for engine in (bing.ENGINE, google.ENGINE)}
