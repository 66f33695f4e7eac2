"""Sources, one folder each: parsers of its pages (no Scrapy, no network), spider, sign-in; and what they share."""
