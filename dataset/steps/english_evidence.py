"""How English the words of a caption are, in lower case: the evidence that needs no detector."""

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Final

from memeloom.catalog.english import COMMON_WORDS
from memeloom.dataset.steps.foreign import FOREIGN_WORDS

WORD: Final = re.compile(r"[^\W\d_]{2,}(?:'[^\W\d_]+)*")
# Log-likelihood ratio (natural) of a common English word, and of any other word against English. Tuned on the half of
# the labelled captions that is not reported on (bench/dataset_filters).
_COMMON: Final = 2.0
_OTHER: Final = 1.0
# Log-likelihood ratio of a word that only other languages have.
_FOREIGN: Final = 3.0
# Captions of at most as many different words are names with a word, if not foreign: detectors guess their language.
_SHORT: Final = 4

# Common English words that other candidates share; they are no evidence.
_ALSO_ELSEWHERE = """
    ad also amen am an animal any arm as at bad ball band bank bar been beer best bird blind bring but by can car case
    chair chat come computer data de den dice die dish do doctor dog dove dude even face fall far fast fat final find
    fine fit form found general glass go god gold gut had haha hand hands hang has hat he her here him his hospital
    hotel hundred i idea in internet is it just kill kind land lang last list lol long los lot main make male man mark
    mayor me meme memes men message mine minute moment more music must my name no nor normal not note of oh ok okay on
    once online open or os over pain papa paper park per phone pie pizza place plan player plus point popular post
    president pro question radio real red rest ring sale sand sea second see sense sex simple sin so solo son song
    star stars stop street super table tag ten test text to total train trump tv under use van via video wand want war
    warm was water we week will wind windows winter wolf word wow yes
"""
_SHARED: Final = frozenset(_ALSO_ELSEWHERE.split())
_ENGLISH: Final = frozenset(COMMON_WORDS) - _SHARED
# Names, and words of no other candidate, with accents that are often left out.
_NAMES = """
    beyonce bjork chloe citroen dazs doppelganger haagen hermes jalapeno jalapenos lancome loreal moet motley nestle
    pokedex pokemon pokemons renee smorgasbord zoe
"""
NAMES: Final = frozenset(_NAMES.split())
# Words that English took over, with accents; other candidates have them too.
_BORROWED = """
    applique blase brulee cafe cafes cliche cliches creme crepe crepes decor deja entree entrees expose facade fiance
    fiancee fiances manana matinee naive naivete negligee ole passe pate pinata pinatas protege puree resume resumes
    rose saute seance senor senorita soiree touche uber voila
"""
BORROWED: Final = frozenset(_BORROWED.split())


class _Weights(dict[str, float]):
    """The log-likelihood ratio (natural) of a word, in lower case, in favour of English."""

    def __missing__(self, word: str) -> float:
        return -_OTHER


def _weigh() -> _Weights:
    weights = _Weights(dict.fromkeys(FOREIGN_WORDS, -_FOREIGN))
    for words, weight in ((_SHARED, 0.0), (_ENGLISH, _COMMON)):
        for word in words:
            weights[word] = weight - (_FOREIGN - _OTHER if word in FOREIGN_WORDS else 0)
    return weights


_weight = _weigh().__getitem__


def balance(words: Collection[str]) -> float:
    """Return the log-likelihood ratio of different words in favour of English."""
    return sum(map(_weight, words))


def is_short_english(words: Collection[str]) -> bool:
    """Return True for a few different words, at least half of them English and none foreign, as in "ghetto lorax"."""
    english, unknown, foreign = _counts(words)
    return len(words) <= _SHORT and not foreign and english >= max(unknown, 1)


def is_short_foreign(words: Collection[str]) -> bool:
    """Return True for a few different words with as many foreign as English ones, such as "tengo homework"."""
    english, _, foreign = _counts(words)
    return len(words) <= _SHORT and foreign >= max(english, 1)


def is_mostly_english(words: Collection[str]) -> bool:
    """Return True if at least half of some words occur in English, and none is foreign."""
    _, unknown, foreign = _counts(words)
    return not foreign and 2 * unknown <= len(words)


def _counts(words: Collection[str]) -> tuple[int, int, int]:
    """Return how many words are English, unknown, and foreign."""
    english = sum(word in _ENGLISH or word in _rarer_words() or word in NAMES for word in words)
    foreign = sum(word in FOREIGN_WORDS and word not in _SHARED for word in words)
    return english, sum(word not in _SHARED for word in words) - english - foreign, foreign


@cache
def _rarer_words() -> frozenset[str]:
    """Return the English words that captions use and `COMMON_WORDS` lacks.

    They were counted in the half of the data that is not reported on (bench/dataset_labels): words of four letters or
    more in eight clearly English captions or more, but for seven that other languages share.
    """
    return frozenset(Path(__file__).with_name("english_words.txt").read_text(encoding="ascii").split())
