"""The Imgflip article's character-level convolutional network, which predicts the next character."""
