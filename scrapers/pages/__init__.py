"""Page parsers, one module a site: text in, records and next links out; no Scrapy, no network."""
