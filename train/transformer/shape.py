"""What follows from the depth of a transformer; no Keras is needed.

The rule is that of nanochat (https://github.com/karpathy/nanochat): the width is 64 times the depth, and the learning
rate of AdamW falls with the square root of the width. Its heads have 128 numbers; these have 64, so that every width
has whole ones.
"""

HEAD_SIZE = 64
# Width of the feed-forward parts, relative to that of the network.
EXPANSION = 4
# The learning rate of the width 768.
_RATE, _WIDTH = 0.0015, 768


def width(depth: int) -> int:
    """Return the number of units; the number of heads equals the depth."""
    return HEAD_SIZE * depth


def learning_rate(depth: int) -> float:
    """Return the peak learning rate."""
    return float(_RATE * (width(depth) / _WIDTH) ** -0.5)
