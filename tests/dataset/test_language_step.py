"""The language step keeps short English captions, drops other languages, and is deterministic."""

import subprocess
import sys
from pathlib import Path

import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from memeloom.configs.errors import ConfigError
from memeloom.dataset.steps.caption import Caption, Step
from memeloom.dataset.steps.detector import KNOWN, Detector
from memeloom.dataset.steps.language import require_language
from memeloom.engine.steps import Drop, Keep

ENGLISH = """
that would be great|one does not simply walk into mordor|brace yourselves winter is coming|i should buy a boat
not sure if trolling or just stupid|shut up and take my money|y u no text back|what if i told you
this is fine|am i the only one around here|ain't nobody got time for that|me on monday morning
say that again i dare you|wake up its friday|mom said no|why not both?|my dog ate it|10 guy forgot his own name
you get a car everybody gets a car|i don't always drink beer|oh you like memes|finally some peace and quiet
WHEN YOU FORGET YOUR HOMEWORK|NOBODY: ME AT 3AM|hold up wait a minute|they hated him because he told the truth
""".strip().replace("\n", "|").split("|")  # fmt: skip

OTHERS = """
wenn du montag wieder arbeiten musst|ich habe keine ahnung was ich hier mache|das ist nicht mein problem
cuando llegas tarde a tu casa|no tengo dinero para la fiesta|mi mama cuando rompo un plato
quand tu oublies tes devoirs|je ne sais pas quoi dire|moi quand il pleut dehors
quando la mamma ti chiama per cena|non ho capito niente ma va bene|sono le tre di notte e non dormo
als je op maandag weer moet werken|ik heb geen idee wat ik hier doe|mijn moeder als ik te laat thuis kom
kiedy zapomnisz pracy domowej|nie wiem co powiedzieć w szkole|mama mówi że obiad jest gotowy
quando você esquece o dever de casa|não tenho dinheiro para a festa|minha mãe quando eu chego tarde
ketika kamu lupa mengerjakan tugas|aku tidak punya uang untuk makan|ibu bilang jangan pulang malam
när du glömmer dina läxor|jag vet inte vad jag ska säga|min mamma när jag kommer hem sent
ödevini unuttuğun zaman|ne diyeceğimi bilmiyorum|annem eve geç geldiğimde böyle bakıyor
когда забыл сделать домашнее задание|я не знаю что сказать маме
""".strip().replace("\n", "|").split("|")  # fmt: skip


def caption(text: str) -> Caption:
    return Caption("imgflip:1", "imgflip", "t", "Name", "slug", (text,))


@pytest.fixture(scope="module")
def fast() -> Step:
    return require_language(["en"], "py3langid", 0.5)


@pytest.mark.parametrize(("detector", "lost", "kept"), [("py3langid", 0, 1), ("langdetect", 3, 3)])
def test_short_english_is_kept_and_other_languages_are_dropped(detector: str, lost: int, kept: int) -> None:
    step = require_language(["en"], detector, 0.5)
    dropped = [text for text in ENGLISH if step(caption(text)) != Keep(caption(text))]
    assert len(dropped) <= lost, dropped
    passed = [text for text in OTHERS if step(caption(text)) != Drop("language")]
    assert len(passed) <= kept, passed


@pytest.mark.parametrize("detector", ["py3langid", "langdetect"])
def test_case_makes_no_difference(detector: str) -> None:
    step = require_language(["en"], detector, 0.5)
    for text in (*ENGLISH, *OTHERS):
        assert isinstance(step(caption(text.upper())), Drop) == isinstance(step(caption(text.upper().lower())), Drop)


@pytest.mark.parametrize("detector", ["py3langid", "langdetect"])
@pytest.mark.parametrize("text", ["12345 + 67890 = ???", "pubg / fortnite", "enchiladas", "", "..."])
def test_text_in_no_language_is_kept(detector: str, text: str) -> None:
    assert require_language(["en"], detector, 0.5)(caption(text)) == Keep(caption(text))


@pytest.mark.parametrize(
    "text",
    [
        "y u no reply?", "ur mom gay", "uh / trump", "snowier snow", "canada sucks!!!", "memes? aliens",
        "bro do it!", "y dis da end?", "ya momma so fat", "zombie land", "bottom text", "gorden bennet",
    ],
)  # fmt: skip
def test_english_that_detectors_doubt_is_kept(fast: Step, text: str) -> None:
    assert fast(caption(text)) == Keep(caption(text))


@pytest.mark.parametrize(
    "text",
    [
        "dae ko man tigpataba ang top yas pa talingahon taka baga",
        "papa aapke toothpaste me namak kyu nahi hai namak hai na beta",
        "hai la compe tu plictisit hai la compe cooldown 4 zile tu plictisit",
    ],
)
def test_languages_that_are_no_candidates_are_dropped(fast: Step, text: str) -> None:
    assert fast(caption(text)) == Drop("language")


@pytest.mark.parametrize(
    "text",
    [
        "tiene prisa", "minha vizinha:", "meri koi girlfriend nahi hai", "vous etes impoli", "tengo homework",
        "kein netflix heute", "dormir forever", "manana amigo feliz", "perro angry",
    ],
)  # fmt: skip
def test_short_captions_in_other_languages_are_dropped(fast: Step, text: str) -> None:
    assert fast(caption(text)) == Drop("language")


@pytest.mark.parametrize(
    "text",
    [
        "ghetto lorax",
        "kim jong un / aliens",
        "einstein wannabe",
        "jalapeno poppers",
        "yo mom's a ho",
        "cafe",
        "pokemon",
    ],
)
def test_a_few_names_with_an_english_word_are_kept(fast: Step, text: str) -> None:
    assert fast(caption(text)) == Keep(caption(text))


@pytest.mark.parametrize("text", ["je suis la pepsi", "ghetto lorax no tiene dinero para la fiesta"])
def test_more_or_foreign_words_are_left_to_the_detector(fast: Step, text: str) -> None:
    assert fast(caption(text)) == Drop("language")


@pytest.mark.parametrize(
    "text",
    ["AAA AAAA AAAAAAA", "aa aaaaaa aaaaaaa choooooo!", ".bmhj gbkjnmmk cjx nbjvghvjbvljbhjhn", "hamaa hamaaa haaaaa"],
)
def test_noise_is_kept(fast: Step, text: str) -> None:
    assert fast(caption(text)) == Keep(caption(text))


@pytest.mark.parametrize(("threshold", "kept"), [(0.0, True), (1.0, False)])
def test_thresholds_0_and_1(threshold: float, kept: bool) -> None:
    text = caption("canada sucks!!!")
    assert isinstance(require_language(["en"], "py3langid", threshold)(text), Keep) == kept


def test_other_wanted_languages() -> None:
    german, english = (
        caption("ich habe keine ahnung was ich hier mache"),
        caption("what if i told you that nobody asked"),
    )
    only_german, both = (require_language(codes, "py3langid", 0.5) for codes in (["de"], ["en", "de"]))
    assert (only_german(german), only_german(english)) == (Keep(german), Drop("language"))
    assert (both(german), both(english)) == (Keep(german), Keep(english))
    assert both(caption("kein netflix heute")) == Keep(caption("kein netflix heute"))
    assert both(caption("cuando llegas tarde a tu casa")) == Drop("language")


@pytest.mark.parametrize("detector", ["py3langid", "langdetect"])
def test_an_unknown_language_is_an_error(detector: str) -> None:
    with pytest.raises(ConfigError, match=f"dataset.languages: {detector} does not know 'english'"):
        require_language(["english"], detector, 0.5)


def test_many_texts_at_once_have_the_probabilities_of_py3langid() -> None:
    languages = ["de", "en", "es", "nl", "ru"]
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    assert frozenset(identifier.labels) == KNOWN
    identifier.set_languages(languages)
    texts = [text.lower() for text in (*ENGLISH, *OTHERS)] + ["", "?!", "e\u0301te\u0301", "\ud83d", "que " * 500]
    detector = Detector(languages)
    found = detector.probabilities(texts)
    for text, probabilities in zip(texts, found, strict=True):
        expected = dict(identifier.rank(text.encode(errors="surrogatepass") if "\ud83d" in text else text))
        assert dict(zip(detector.languages, probabilities, strict=True)) == pytest.approx(expected, abs=1e-5)
    # Alone or beside longer ones.
    assert [detector.probabilities([text])[0] for text in texts] == found


def test_the_unpacked_model_is_cached_and_a_damaged_one_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMELOOM_CACHE", str(tmp_path))
    first = Detector(["de", "en"]).probabilities(["guten tag"])
    (path,) = (tmp_path / "language").iterdir()
    whole = path.read_bytes()
    assert Detector(["de", "en"]).probabilities(["guten tag"]) == first
    for damaged in (whole[:1000], whole[:-1000], b"", whole[:9999] + b"\0\1\2\3" + whole[10003:]):
        path.write_bytes(damaged)
        assert Detector(["en", "de"]).probabilities(["guten tag"]) == first
        assert path.read_bytes() == whole


def test_langdetect_gives_the_same_in_every_process() -> None:
    # Texts that it is unsure about; unseeded, its answer to such changes from run to run.
    texts = ["fortnite memes", "me ban straw memes", "joe mamma gay", "lwiay lwiay me", "damn girl u fine"]
    script = (
        "import sys; from memeloom.dataset.steps.language import _Langdetect\n"
        "sys.stdout.write(repr([_Langdetect(('en',))(text) for text in sys.argv[1:]]))"
    )
    command = [sys.executable, "-c", script, *texts]
    answers = [subprocess.run(command, capture_output=True, check=True, timeout=60).stdout for _ in range(2)]
    assert answers[0] == answers[1] != b""
