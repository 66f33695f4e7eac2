"""Settings, their schema, and what every room shares: errors, progress, locks and atomic outputs."""
