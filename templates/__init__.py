"""Which template a meme is made on: an index over the templates' hashes, and the stage that asks it."""
