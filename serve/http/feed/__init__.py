"""`/`, `/m` and `/feed`: the page that people scroll through, and its API."""
