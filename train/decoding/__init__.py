"""From a model's probabilities to captions; every method works with every kind of model."""
