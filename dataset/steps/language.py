"""Whether a caption is in one of the wanted languages.

Captions are short and half of them shout, so no detector is sure. Both are asked for the probability
of the wanted languages together, on lower-cased text, and a low threshold keeps what may well be wanted.
A text without a letter is in no language.
"""

import difflib
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import TypeAlias

from configs.errors import ConfigError
from dataset.steps.contract import Caption, Drop, Keep, Outcome, Step

Share: TypeAlias = Callable[[str], float]

# What a detector chooses from, beside the wanted languages: asked about all that it knows, it takes
# short English captions for Afrikaans, Scots or pidgin.
_CANDIDATES = ("de", "en", "es", "fr", "id", "it", "nl", "pl", "pt", "ru", "sv", "tr")


def require_language(languages: Sequence[str], detector: str, threshold: float) -> Step:
    """Drop ``language``: the wanted languages together are less probable than `threshold`.

    languages: ISO 639-1 codes as the detector knows them; none keeps every caption.
    detector: ``py3langid`` (fast) or ``langdetect`` (100 times slower, seeded so that it repeats itself).

    Raises:
        ConfigError: the detector does not know a language.
    """
    if not languages:
        return Keep
    load = _langdetect_share if detector == "langdetect" else _py3langid_share
    share = load(tuple(languages))

    def step(caption: Caption) -> Outcome:
        return Keep(caption) if share(" ".join(caption.boxes).lower()) >= threshold else Drop("language")

    return step


# A model takes a second to load; it serves the whole process.
@lru_cache(maxsize=2)
def _py3langid_share(languages: tuple[str, ...]) -> Share:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    _check_known(languages, identifier.labels, "py3langid")
    identifier.set_languages(sorted({*_CANDIDATES, *languages}))
    wanted = frozenset(languages)

    def share(text: str) -> float:
        best, probability = identifier.classify(text)
        # Most captions end here; the whole ranking costs twice as much.
        if best in wanted and probability > 0.5:
            return float(probability)
        if not any(map(str.isalpha, text)):
            return 0.0
        return float(sum(probability for language, probability in identifier.rank(text) if language in wanted))

    return share


@lru_cache(maxsize=2)
def _langdetect_share(languages: tuple[str, ...]) -> Share:
    from langdetect import DetectorFactory, LangDetectException
    from langdetect.detector_factory import PROFILES_DIRECTORY
    from langdetect.lang_detect_exception import ErrorCode

    factory = DetectorFactory()
    factory.load_profile(PROFILES_DIRECTORY)
    # Without a seed it answers otherwise in another run.
    factory.seed = 0
    _check_known(languages, factory.get_lang_list(), "langdetect")
    equally_likely = dict.fromkeys({*_CANDIDATES, *languages}, 1.0)
    wanted = frozenset(languages)

    def share(text: str) -> float:
        detector = factory.create()
        detector.set_prior_map(equally_likely)
        detector.append(text)
        try:
            found = detector.get_probabilities()
        except LangDetectException as error:
            if error.code != ErrorCode.CantDetectError:
                raise
            return 0.0
        return float(sum(language.prob for language in found if language.lang in wanted))

    return share


def _check_known(languages: Sequence[str], known: Collection[str], detector: str) -> None:
    for language in languages:
        if language not in known:
            near = difflib.get_close_matches(language, known, n=1, cutoff=0.0)
            raise ConfigError(
                f"dataset.languages: {detector} does not know {language!r}; codes are like {near[0]!r} (ISO 639-1)"
            )
