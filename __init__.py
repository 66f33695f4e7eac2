"""memeloom: the meme web into training data, and the data into a model that captions images."""
