"""Pictures of requests: their addresses, options and plans, and drawing them."""
