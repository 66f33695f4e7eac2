"""From the catalog to TFRecords for training: filters, deduplication, splits, shards and a manifest."""
