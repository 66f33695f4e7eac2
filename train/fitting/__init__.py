"""How any task is fitted: batches, compiled steps on one or many devices, and what is told about it."""
