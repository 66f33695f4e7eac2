"""Engine: pure functions over partitions, in local processes or on a Ray cluster."""
