"""memeloom's own API: captions, memes, batches, templates and the catalog."""
