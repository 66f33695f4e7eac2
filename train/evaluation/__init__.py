"""Evaluation of models: likelihood of held-out captions, and captions written at several temperatures."""
