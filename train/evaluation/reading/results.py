"""Ratings joined with the key: what readers say about each author's captions, as in `reading-metrics.json`."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from memeloom.train.evaluation.likelihood import Interval
from memeloom.train.evaluation.reading.figures import auc, difference, krippendorff, wilson
from memeloom.train.evaluation.reading.ratings import Rating, Ratings
from memeloom.train.evaluation.reading.sheet import PEOPLE, QUESTIONS, Key

_POST = next(at for at, question in enumerate(QUESTIONS) if question.name == "post")
# The row of a score's agreement over all authors.
EVERYONE = "all"


@dataclass(frozen=True, slots=True)
class AuthorRatings:
    """What readers say about the captions of an author.

    captions: in the sheet. rated: how many of them at least one reader rated.
    shares: of rated captions with yes, by question; of one that several readers rated, the share of the readers.
    behind: shares minus those of people, by question; None for people, and without rated captions.
    """

    name: str
    captions: int
    rated: int
    shares: Mapping[str, Interval]
    behind: Mapping[str, Interval] | None


@dataclass(frozen=True, slots=True)
class Reading:
    """The results of a reading.

    about: where the captions come from. raters: number of captions that each rated. skipped: lines by reason.
    rated_twice: captions that several readers rated; agreement: Krippendorff's alpha about them, by question, None
    where all said the same. ranking: by author, how often a caption that most readers would post has a higher score
    than one that they would not (AUC); empty without scores.
    """

    sheet: str
    about: Mapping[str, Any]
    captions: int
    rated: int
    raters: Mapping[str, int]
    skipped: Mapping[str, int]
    authors: tuple[AuthorRatings, ...]
    rated_twice: int
    agreement: Mapping[str, float | None]
    ranking: Mapping[str, Interval]

    def as_json(self) -> dict[str, Any]:
        """Return the content of `reading-metrics.json`."""
        return {"version": 1, **asdict(self)}


def join(key: Key, ratings: Ratings) -> Reading:
    """Join `ratings` of the sheet of `key` with the key."""
    by_item: dict[int, list[Rating]] = defaultdict(list)
    for rating in ratings.found.values():
        by_item[rating.number].append(rating)
    twice = [each for each in by_item.values() if len(each) > 1]
    people = _shares(key, PEOPLE, by_item)
    return Reading(
        sheet=key.sheet,
        about=key.about,
        captions=len(key.items),
        rated=len(by_item),
        raters=dict(sorted(Counter(rater for rater, _ in ratings.found).items())),
        skipped=dict(ratings.skipped),
        authors=tuple(_author(key, name, by_item, people) for name in key.authors),
        rated_twice=len(twice),
        agreement={
            question.name: krippendorff([[rating.answers[at] for rating in each] for each in twice])
            for at, question in enumerate(QUESTIONS)
        },
        ranking={
            name: found for name in (EVERYONE, *key.authors) if (found := _ranking(key, name, by_item)) is not None
        },
    )


def _author(
    key: Key, name: str, by_item: Mapping[int, Sequence[Rating]], people: Mapping[str, Interval]
) -> AuthorRatings:
    numbers, shares = _numbers(key, name), _shares(key, name, by_item)
    behind = {question: difference(share, people[question]) for question, share in shares.items() if people}
    return AuthorRatings(
        name=name,
        captions=len(numbers),
        rated=sum(number in by_item for number in numbers),
        shares=shares,
        behind=None if name == PEOPLE or not behind else behind,
    )


def _shares(key: Key, name: str, by_item: Mapping[int, Sequence[Rating]]) -> dict[str, Interval]:
    rated = [by_item[number] for number in _numbers(key, name) if number in by_item]
    if not rated:
        return {}
    return {
        question.name: wilson(sum(_share(each, at) for each in rated), len(rated))
        for at, question in enumerate(QUESTIONS)
    }


def _ranking(key: Key, name: str, by_item: Mapping[int, Sequence[Rating]]) -> Interval | None:
    scored = [
        (item.score, _share(by_item[item.number], _POST) > 0.5)
        for item in key.items
        if item.score is not None and item.number in by_item and (name == EVERYONE or name in item.authors)
    ]
    return auc([score for score, _ in scored], [posted for _, posted in scored])


def _numbers(key: Key, name: str) -> list[int]:
    return [item.number for item in key.items if name in item.authors]


def _share(ratings: Sequence[Rating], question: int) -> float:
    return sum(rating.answers[question] for rating in ratings) / len(ratings)
