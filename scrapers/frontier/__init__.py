"""The durable queue of requests; `contract.py` defines its guarantees."""
