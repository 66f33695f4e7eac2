"""Page parsers, one module per site: return records and next links; no Scrapy, no network."""
