"""Memes: captions drawn on pictures, and sheets of them."""
