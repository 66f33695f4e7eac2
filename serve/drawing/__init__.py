"""Captions drawn on still and moving pictures: text boxes, fonts, shaping, and encoded files."""
