"""How good a model is: the likelihood of held-out captions, and what it writes at several temperatures."""
