"""Memefly's captioner: a picture's vector from InceptionV3, joined to every word that a recurrent decoder reads."""
