"""Which template suits a text, and how the text is divided among its boxes: by words, without a model."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from memeloom.catalog.records import Template
from memeloom.serve.http.templates import TemplateLookup, capacity

_WORD: Final = re.compile(r"[^\W_]+")
# Where people divide a caption themselves.
_DIVIDED: Final = re.compile(r"\s*(?:\n|\||\s/\s)\s*")
_USUAL_LINES: Final = 2


class Choice(NamedTuple):
    """A template and its texts."""

    template: Template
    texts: list[str]


def choose_template(lookup: TemplateLookup, text: str) -> Choice | None:
    """Return the template whose names and example share the rarest words with `text`, and the divided text.

    Only templates that take as many texts as `text` has parts are considered: parts stand between line breaks, ``|`` or
    `` / ``; an undivided text is divided in two. The most used of equal ones is taken. None if there is none.
    """
    parts = [part for part in _DIVIDED.split(text.strip()) if part]
    if len(parts) < _USUAL_LINES:
        parts = divide(text)
    fitting = [each for each in lookup.all() if capacity(each) == max(len(parts), _USUAL_LINES)]
    if not fitting:
        return None
    words = {template.id: _words_of(template) for template in fitting}
    spread = Counter(word for each in words.values() for word in each)
    wanted = set(_words(text))

    def similarity(template: Template) -> tuple[float, int]:
        shared = wanted & words[template.id]
        weight = sum(math.log(1 + len(fitting) / spread[word]) for word in shared)
        return weight / math.sqrt(1 + len(words[template.id])), lookup.memes(template)

    return Choice(max(fitting, key=similarity), parts)


def divide(text: str) -> list[str]:
    """Return a text in two parts: at the punctuation mark or else the space that is nearest to its middle."""
    words = text.split()
    if len(words) < _USUAL_LINES:
        return [" ".join(words)]
    places = range(1, len(words))
    marked = [place for place in places if words[place - 1][-1] in ",.!?;:"]
    lengths = [sum(len(word) + 1 for word in words[:place]) for place in places]
    middle = sum(map(len, words)) / 2
    place = min(marked or places, key=lambda place: abs(lengths[place - 1] - middle))
    return [" ".join(words[:place]), " ".join(words[place:])]


def _words_of(template: Template) -> set[str]:
    texts: Sequence[str] = (template.name, *template.alt_names, *template.example)
    return {word for text in texts for word in _words(text)}


def _words(text: str) -> Iterable[str]:
    return _WORD.findall(text.casefold())
