"""Pure functions over many partitions: in this process, in local processes, or on a Ray cluster."""
