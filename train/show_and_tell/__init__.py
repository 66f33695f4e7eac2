"""Memefly's captioner: a recurrent decoder that reads InceptionV3's vector of the picture beside every word."""
