"""Measurements on real data, one table each: `python -m bench.NAME --help`."""
