"""Typographic characters become what a keyboard types; whatever says more than that stays."""

import pytest

from memeloom.configs.schema import Dataset
from memeloom.dataset.steps.batch import apply_to_batch
from memeloom.dataset.steps.caption import Caption
from memeloom.dataset.steps.registry import build_steps
from memeloom.dataset.steps.typography import plain_typography, write_ascii
from memeloom.engine.steps import Drop


def caption(*boxes: str) -> Caption:
    return Caption("imgflip:1", "imgflip", "t", "Name", "slug", boxes)


@pytest.mark.parametrize(
    ("typeset", "typed"),
    [
        ("it’s ‘so’ they´re", "it's 'so' they're"),
        ("“quote” „Zitat“ «citation» ¨half¨", '"quote" "Zitat" "citation" "half"'),
        ("well…", "well..."),
        ("1938–2017 — so—what − 1", "1938-2017 - so-what - 1"),
        ("no\u00a0break\u3000wide\u2009thin", "no break wide thin"),
        ("zero\u200bwidth soft\u00adhyphen end\ufeff", "zerowidth softhyphen end"),
        ("ＦＵＬＬ！？ 𝓈𝒸𝓇𝒾𝓅𝓉 ﬁne", "FULL!? script fine"),
        ("control \u0093quotes\u0094 that\u0092s", 'control "quotes" that\'s'),
        ("thatâ€™d be greatâ€¦ â€œyesâ€\u009d â€“ no", 'that\'d be great... "yes" - no'),
        ("10× more", "10x more"),
    ],
)
def test_what_has_an_ascii_form_is_written_in_it(typeset: str, typed: str) -> None:
    assert write_ascii(typeset) == typed


@pytest.mark.parametrize(
    "text", ["naïve café", "ol\u00e1 \u00f1", "£5 is 5 €", "65°", "E=mc²", "2½", "brand™", "Ⓐ", "😂", "привет", "中文"]
)
def test_what_has_none_stays(text: str) -> None:
    assert write_ascii(text) == text


def test_captions_that_may_have_any_character_keep_them() -> None:
    captions = [caption("plain", "text"), caption("it’s", "", "so…"), caption("mañana")]
    ascii_only = [caption("plain", "text"), caption("it's", "", "so..."), caption("manana")]
    assert apply_to_batch([plain_typography("ascii")], captions) == ascii_only
    assert apply_to_batch([plain_typography("any")], captions) == captions


@pytest.mark.parametrize(
    ("boxes", "plain"),
    [
        (("CAFÉ",), ("CAFE",)),
        (("POKÉMON", "PIKACHU"), ("POKEMON", "PIKACHU")),
        (("Jalapeños", "so naïve, déjà vu"), ("Jalapenos", "so naive, deja vu")),
        (("THIS IS", "JÜRGEN"), ("THIS IS", "JURGEN")),
        (("re\u0301sume\u0301",), ("resume",)),
        (("so you met Andrés Ibáñez?",), ("so you met Andres Ibanez?",)),
    ],
)
def test_english_captions_lose_their_accents(boxes: tuple[str, ...], plain: tuple[str, ...]) -> None:
    [kept] = apply_to_batch([plain_typography("ascii")], [caption(*boxes)])
    assert kept == caption(*plain)


@pytest.mark.parametrize(
    "text",
    [
        "feliz mañana señorita", "hasta mañana amigo", "hola señorita", "vamos señor", "que rico café", "tomando café",
        "le café noir", "pour moi résumé",
    ],
)  # fmt: skip
def test_short_foreign_captions_with_words_that_english_took_over_are_dropped(settings: Dataset, text: str) -> None:
    steps = build_steps(settings)
    bare = text.translate(str.maketrans("ñéó", "neo"))
    for written, reason in ((text, "characters"), (text.upper(), "characters"), (bare, "language")):
        assert apply_to_batch(steps, [caption(written)]) == [Drop(reason)]


@pytest.mark.parametrize(
    "text", ["quando pega um limão", "wie läuft's", "imbécil", "ormai è troppo tardi", "jag är trött", "dra åt helvete"]
)
def test_accents_of_other_languages_stay(text: str) -> None:
    assert apply_to_batch([plain_typography("ascii")], [caption(text)]) == [caption(text)]
