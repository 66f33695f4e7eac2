"""How long to wait before the next attempt."""

import random


def backoff_seconds(attempt: int, first: float, longest: float) -> float:
    """Return the pause after failed attempt number `attempt` (from 1): it doubles from `first` up to `longest`.

    A random part of up to half keeps clients that failed together from coming back together.
    """
    return min(first * 2.0 ** (attempt - 1), longest) * random.uniform(0.5, 1.0)
