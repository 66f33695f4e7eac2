"""From the catalog to TFRecords that a trainer can trust: filters, duplicates, splits, shards and their manifest."""
