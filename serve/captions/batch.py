"""Write the captions of several requests together, as far as their settings allow."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from memeloom.configs.errors import MemeloomError
from memeloom.serve.captions.errors import NoCaption
from memeloom.serve.captions.request import CaptionRequest, open_prompt
from memeloom.serve.captions.served import ServedModel
from memeloom.train.contract import Prompt
from memeloom.train.decoding.draft import WrittenCaption
from memeloom.train.decoding.found import FoundCaptions
from memeloom.train.generate import DETERMINISTIC, open_method

# Rounds in which captions that are empty, unfinished or repeated are written again.
_ROUNDS = 4
_SEARCHES = ("beam", "sampled-beam")


@dataclass(slots=True)
class _Job:
    """A request in progress."""

    request: CaptionRequest
    prompt: Prompt
    found: FoundCaptions

    @classmethod
    def begin(cls, request: CaptionRequest, prompt: Prompt) -> "_Job":
        """Return the job of a request before anything is written."""
        return cls(request, prompt, FoundCaptions(1 if request.settings.method == "greedy" else request.best_of))

    def best(self) -> list[WrittenCaption] | MemeloomError:
        captions = self.found.best(by_score=self.request.best_of > self.request.settings.captions)
        if not captions:
            return NoCaption("every caption came out empty" + (" or was refused" * self.request.settings.safe))
        return captions[: self.request.settings.captions]


def write_batch(served: ServedModel, requests: Sequence[CaptionRequest]) -> list[list[WrittenCaption] | MemeloomError]:
    """Return for each request its captions, or why there are none.

    Requests with the same method and settings are decoded together. A request with a seed is decoded alone, so that
    its captions do not depend on what else is asked for.
    """
    results: list[list[WrittenCaption] | MemeloomError] = []
    groups: dict[Hashable, list[_Job]] = defaultdict(list)
    jobs: dict[int, _Job] = {}
    for number, request in enumerate(requests):
        try:
            prompt = open_prompt(served, request)
        except MemeloomError as error:
            results.append(error)
            continue
        results.append([])
        jobs[number] = _Job.begin(request, prompt)
        groups[_together(number, request)].append(jobs[number])
    for group in groups.values():
        _write_group(served, group)
    for number, job in jobs.items():
        results[number] = job.best()
    return results


def _together(number: int, request: CaptionRequest) -> Hashable:
    """Return a key that requests share which can be decoded together."""
    settings = request.settings
    if settings.seed is not None:
        return number
    searched = settings.method in _SEARCHES
    return (
        settings.method, settings.min_score, settings.temperature, settings.top_k, settings.top_p,
        settings.max_characters, settings.safe, searched and (settings.beam_width, request.best_of),
    )  # fmt: skip


def _write_group(served: ServedModel, jobs: Sequence[_Job]) -> None:
    settings = jobs[0].request.settings
    rng = np.random.default_rng(settings.seed)
    write = open_method(served.model, settings, rng, served.word_filter if settings.safe else None)
    for _ in range(1 if settings.method in DETERMINISTIC else _ROUNDS):
        lacking = [job for job in jobs if job.found.lacking]
        if not lacking:
            return
        if settings.method in _SEARCHES:
            most = lacking[0].request.best_of
            for job, captions in zip(lacking, write([job.prompt for job in lacking], most), strict=True):
                job.found.add(captions)
            continue
        rows = [job for job in lacking for _ in range(job.found.lacking)]
        for job, captions in zip(rows, write([job.prompt for job in rows], 1), strict=True):
            job.found.add(captions)
