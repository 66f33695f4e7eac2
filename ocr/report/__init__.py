"""Pages and pictures about readings: one for each run, and one for a single inspected picture."""
