"""How long to wait before the next attempt."""

import random


def backoff_seconds(attempt: int, first: float, longest: float) -> float:
    """Return the pause after failed attempt `attempt` (from 1): doubles from `first` up to `longest`.

    Up to half is random, so that clients that failed together do not retry together.
    """
    return min(first * 2.0 ** (attempt - 1), longest) * random.uniform(0.5, 1.0)
