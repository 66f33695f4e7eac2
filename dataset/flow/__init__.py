"""The way of captions from the catalog into shards: blocks, duplicates, choice, files."""
