"""Which template a meme is made on: known ones recognised, new ones found; the picture and its words apart."""
