"""Serving what was made: captions drawn on pictures, and sheets of them."""
