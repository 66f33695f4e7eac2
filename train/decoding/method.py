"""The method of writing that the settings name."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from memeloom.configs.schema import Generate
from memeloom.train.contract import Captioner, Prompt
from memeloom.train.decoding.beam import Search, search_captions
from memeloom.train.decoding.choose import Chooser, by_sampling, by_threshold, greedily
from memeloom.train.decoding.draft import Written
from memeloom.train.decoding.safe import Censor
from memeloom.train.decoding.write import write_captions

# Asked again, these write the same.
CERTAIN: Final = ("greedy", "beam")

# Prompts, and how many captions are wanted for each of them, to those written for each: the searched ones different and
# best first, the drawn ones as chance has it.
Write: TypeAlias = Callable[[Sequence[Prompt], int], list[list[Written]]]


def open_method(model: Captioner, settings: Generate, rng: np.random.Generator, censor: Censor | None = None) -> Write:
    """Writes with `model` as `settings` say: method, its numbers, and how long a caption may be.

    A search is never narrower than the captions that are wanted.
    """
    passed: dict[str, Any] = {"max_characters": settings.max_characters, "rng": rng, "censor": censor}

    def drawn(prompts: Sequence[Prompt], captions: int) -> list[list[Written]]:
        repeated = [prompt for prompt in prompts for _ in range(captions)]
        made = write_captions(model, repeated, choose, **passed)
        return [made[first : first + captions] for first in range(0, len(made), captions)]

    def searched(prompts: Sequence[Prompt], captions: int) -> list[list[Written]]:
        wanted = Search(max(settings.beam_width, captions), settings.length_penalty, bar)
        return search_captions(model, prompts, wanted, captions=captions, **passed)

    if settings.method in ("beam", "sampled-beam"):
        bar = settings.min_score if settings.method == "sampled-beam" else None
        return searched
    choose = _chooser(settings)
    return drawn


def _chooser(settings: Generate) -> Chooser:
    if settings.method == "greedy":
        return greedily
    if settings.method == "threshold":
        return by_threshold(settings.min_score)
    return by_sampling(settings.temperature, top_k=settings.top_k, top_p=settings.top_p)
