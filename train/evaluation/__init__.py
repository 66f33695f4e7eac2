"""How good a model is: likelihood of captions that it never saw, and what it writes, boldly and timidly."""
