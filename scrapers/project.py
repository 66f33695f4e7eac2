"""The settings of Scrapy's own command line: defaults and environment, as `memeloom` reads them."""

from memeloom.configs.load import load_config
from memeloom.scrapers.settings import scrapy_settings

globals().update(scrapy_settings(load_config()))
