"""Networks: one module each, found by `registry.py`."""
