"""The image searches that we know, by name."""

from memeloom.scrapers.pages import bing, google

ENGINES = {engine.name: engine for engine in (bing.ENGINE, google.ENGINE)}
