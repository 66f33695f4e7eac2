"""Filter captions by language.

Detectors are unreliable on short, upper-case captions. Their probabilities (on lower-cased text) are combined by Bayes'
rule with the prior that nearly all captions are in a wanted language, and with common English words. Ambiguous short
texts, names, numbers and noise are kept.
"""

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from memeloom.catalog.english import COMMON_WORDS
from memeloom.configs.errors import ConfigError
from memeloom.dataset.steps.caption import Caption, Outcome, Step, keep
from memeloom.dataset.steps.foreign import FOREIGN_WORDS
from memeloom.engine.steps import Drop, Keep

# Returns the probability of English, and that of the other wanted languages together.
Shares: TypeAlias = Callable[[str], tuple[float, float]]

# Candidates besides the wanted languages. Given all its languages, a detector takes short English captions for
# Afrikaans, Scots or pidgin.
_CANDIDATES: Final = ("de", "en", "es", "fr", "id", "it", "nl", "pl", "pt", "ru", "sv", "tr")
# Share of captions in a wanted language: 793 of 800 random captions of an English-speaking site were English.
_WANTED_SHARE: Final = 0.99
# Log-likelihood ratio (natural) of a common English word, and of any other word against English. Tuned on the half of
# the labelled captions that is not reported on (bench/dataset_filters).
_COMMON: Final = 2.0
_OTHER: Final = 1.0
# Evidence above the threshold that no detector outweighs on short texts: 252,000 captions gave the same without it.
_PLAIN: Final = 1.0
# Least probability of a language that a detector omits or rates lower.
_LEAST: Final = {"py3langid": 1e-9, "langdetect": 3e-3}
# Log-likelihood ratio of a word that only other languages have.
_FOREIGN: Final = 3.0
# Noise has no language, but detectors name one: a letter three times in a row, few letters, no vowel, no end.
_NOISE = re.compile(r"[^\W\d_]*([^\W\d_])\1\1[^\W\d_]*|(.)(.)(?:\2|\3)+|[b-df-hj-np-tv-xz]{4,}|.{21,}")
_WORD = re.compile(r"[^\W\d_]{2,}(?:'[^\W\d_]+)*")

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


def require_language(languages: Sequence[str], detector: str, threshold: float) -> Step:
    """Drop ``language``: the wanted languages together are less probable than `threshold`.

    languages: ISO 639-1 codes of the detector; none keeps every caption.
    detector: ``py3langid`` (fast) or ``langdetect`` (100 times slower, seeded for reproducibility).

    Raises:
        ConfigError: the detector does not know a language.
    """
    if not languages:
        return keep
    load = _langdetect_shares if detector == "langdetect" else _py3langid_shares
    shares, least, prior = load(tuple(languages)), _LEAST[detector], _prior(languages)
    english_wanted = "en" in languages
    needed = _log_odds(threshold)
    plain = needed + _PLAIN if english_wanted else math.inf

    def step(caption: Caption) -> Outcome:
        text = " ".join(caption.boxes).lower()
        # Four of five captions are clearly English without a detector.
        if _balance({*text.split()}) >= plain:
            return Keep(caption)
        words = _WORD.findall(text)
        noise = sum(_NOISE.fullmatch(word) is not None for word in words)
        if 2 * noise >= len(words):
            return Keep(caption)
        evidence = _balance({*words})
        if evidence >= plain:
            return Keep(caption)
        english, others = shares(text)
        rest = max(1 - english - others, least)
        english = max(english, least) * math.exp(evidence)
        odds = (others + english) / rest if english_wanted else max(others, least) / (rest + english)
        return Keep(caption) if prior + math.log(odds) >= needed else Drop("language")

    return step


def _balance(words: set[str]) -> float:
    """Return the log-likelihood ratio (natural) of `words`, in lower case, in favour of English."""
    common = len(words & _ENGLISH)
    foreign = len(words & FOREIGN_WORDS)
    return _COMMON * common - _OTHER * (len(words) - common - len(words & _SHARED)) - (_FOREIGN - _OTHER) * foreign


def _prior(languages: Sequence[str]) -> float:
    """Return the prior log odds of a wanted language; detectors assume equally likely candidates."""
    wanted = len(set(languages))
    unwanted = len({*_CANDIDATES, *languages}) - wanted
    return math.log(_WANTED_SHARE / (1 - _WANTED_SHARE) * max(unwanted, 1) / wanted)


def _log_odds(probability: float) -> float:
    if probability in {0.0, 1.0}:
        return math.inf if probability else -math.inf
    return math.log(probability / (1 - probability))


# Loading takes a second: once per process.
@lru_cache(maxsize=2)
def _py3langid_shares(languages: tuple[str, ...]) -> Shares:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    _check_known(languages, identifier.labels, "py3langid")
    identifier.set_languages(sorted({*_CANDIDATES, *languages}))
    # Converting its half-precision, column-major table once makes it a sixth faster, with equal results.
    identifier.nb_ptc = np.ascontiguousarray(identifier.nb_ptc, dtype=np.float32)
    others = frozenset(languages) - {"en"}

    def shares(text: str) -> tuple[float, float]:
        best, probability = identifier.classify(text)
        # Most captions end here; ranking all languages costs twice as much.
        if best == "en" and not others:
            return float(probability), 0.0
        return _divided(((language, float(share)) for language, share in identifier.rank(text)), others)

    return shares


@lru_cache(maxsize=2)
def _langdetect_shares(languages: tuple[str, ...]) -> Shares:
    from langdetect import DetectorFactory, LangDetectException
    from langdetect.detector_factory import PROFILES_DIRECTORY
    from langdetect.lang_detect_exception import ErrorCode

    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    # Without a seed, results differ between runs.
    factory.seed = 0
    _check_known(languages, factory.get_lang_list(), "langdetect")
    candidates = {*_CANDIDATES, *languages}
    equally_likely = dict.fromkeys(candidates, 1.0)
    others = frozenset(languages) - {"en"}
    # The text has no letters.
    unknown = _divided(((language, 1 / len(candidates)) for language in sorted(candidates)), others)

    def shares(text: str) -> tuple[float, float]:
        detector = factory.create()
        detector.set_prior_map(equally_likely)
        detector.append(text)
        try:
            found = detector.get_probabilities()
        except LangDetectException as error:
            if error.code != ErrorCode.CantDetectError:
                raise
            return unknown
        return _divided(((language.lang, language.prob) for language in found), others)

    return shares


def _divided(ranked: Iterable[tuple[str, float]], others: Collection[str]) -> tuple[float, float]:
    """Return the probability of English, and that of `others` together."""
    english = wanted = 0.0
    for language, probability in ranked:
        if language == "en":
            english = probability
        elif language in others:
            wanted += probability
    return english, wanted


def _check_known(languages: Sequence[str], known: Collection[str], detector: str) -> None:
    for language in languages:
        if language not in known:
            near = difflib.get_close_matches(language, known, n=1, cutoff=0.0)
            raise ConfigError(
                f"dataset.languages: {detector} does not know {language!r}; codes are like {near[0]!r} (ISO 639-1)"
            )
