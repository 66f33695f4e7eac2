"""The Imgflip article's character-level convolutional network: the next character from those before it."""
