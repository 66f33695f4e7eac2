"""Fitting any training task: batches, compiled steps on one or many devices, checkpoints and history."""
