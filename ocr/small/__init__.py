"""Trains the small networks in `ocr/models`: the detector on drawn and labelled memes, the recogniser on lines."""
