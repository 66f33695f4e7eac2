"""The language step: short English captions stay, other languages go, and the same text always fares the same."""

import subprocess
import sys

import pytest

from memeloom.configs.errors import ConfigError
from memeloom.dataset.steps.caption import Caption, Step
from memeloom.dataset.steps.language import english_evidence, require_language
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
    return Caption("imgflip:1", "imgflip", "t", "Name", "slug", (text,), False, "")


@pytest.fixture(scope="module")
def fast() -> Step:
    return require_language(["en"], "py3langid", 0.5)


@pytest.fixture(scope="module")
def seeded() -> Step:
    return require_language(["en"], "langdetect", 0.5)


def test_the_fast_detector_keeps_short_english_and_drops_the_rest(fast: Step) -> None:
    assert [text for text in ENGLISH if fast(caption(text)) != Keep(caption(text))] == []
    kept = [text for text in OTHERS if fast(caption(text)) != Drop("language")]
    assert len(kept) <= 1, kept


def test_langdetect_keeps_most_english_and_drops_the_rest(seeded: Step) -> None:
    lost = [text for text in ENGLISH if seeded(caption(text)) != Keep(caption(text))]
    assert len(lost) <= 3, lost
    kept = [text for text in OTHERS if seeded(caption(text)) != Drop("language")]
    assert len(kept) <= 3, kept


@pytest.mark.parametrize("detector", ["py3langid", "langdetect"])
def test_shouting_is_judged_like_speaking(detector: str) -> None:
    step = require_language(["en"], detector, 0.5)
    for text in (*ENGLISH, *OTHERS):
        assert isinstance(step(caption(text.upper())), Drop) == isinstance(step(caption(text.upper().lower())), Drop)


@pytest.mark.parametrize("detector", ["py3langid", "langdetect"])
@pytest.mark.parametrize("text", ["12345 + 67890 = ???", "pubg / fortnite", "enchiladas", "", "..."])
def test_what_is_in_no_language_stays(detector: str, text: str) -> None:
    assert require_language(["en"], detector, 0.5)(caption(text)) == Keep(caption(text))


@pytest.mark.parametrize(
    "text",
    [
        "y u no reply?", "ur mom gay", "uh / trump", "snowier snow", "canada sucks!!!", "memes? aliens",
        "bro do it!", "y dis da end?", "ya momma so fat", "zombie land", "bottom text", "gorden bennet",
    ],
)  # fmt: skip
def test_english_that_detectors_doubt_stays(fast: Step, text: str) -> None:
    assert fast(caption(text)) == Keep(caption(text))


@pytest.mark.parametrize(
    "text",
    [
        "dae ko man tigpataba ang top yas pa talingahon taka baga",
        "papa aapke toothpaste me namak kyu nahi hai namak hai na beta",
        "hai la compe tu plictisit hai la compe cooldown 4 zile tu plictisit",
    ],
)
def test_languages_that_no_candidate_stands_for_go_for_lack_of_english_words(fast: Step, text: str) -> None:
    assert fast(caption(text)) == Drop("language")


def test_common_words_weigh_for_english_each_once_and_shared_ones_do_not() -> None:
    assert english_evidence("that would be great") > english_evidence("that would be zxqw")
    assert english_evidence("great great great") == english_evidence("great")
    assert english_evidence("me in war so die") == 0
    assert english_evidence("12 + 3 = x !") == 0
    assert english_evidence("quand tu oublies") < 0


def test_english_words_do_not_help_where_english_is_not_wanted() -> None:
    german = require_language(["de"], "py3langid", 0.5)
    assert german(caption("ich habe keine ahnung was ich hier mache")) == Keep(
        caption("ich habe keine ahnung was ich hier mache")
    )
    assert german(caption("what if i told you that nobody asked")) == Drop("language")


@pytest.mark.parametrize(("threshold", "kept"), [(0.0, True), (1.0, False)])
def test_the_threshold_goes_all_the_way(threshold: float, kept: bool) -> None:
    text = caption("canada sucks!!!")
    assert isinstance(require_language(["en"], "py3langid", threshold)(text), Keep) == kept


def test_several_languages_count_together(fast: Step) -> None:
    both = require_language(["en", "de"], "py3langid", 0.5)
    german = caption("ich habe keine ahnung was ich hier mache")
    assert both(german) == Keep(german)
    assert both(caption(ENGLISH[0])) == Keep(caption(ENGLISH[0]))
    assert both(caption("cuando llegas tarde a tu casa")) == Drop("language")


def test_no_language_keeps_everything() -> None:
    step = require_language([], "py3langid", 0.5)
    assert step(caption("???")) == Keep(caption("???"))


@pytest.mark.parametrize("detector", ["py3langid", "langdetect"])
def test_an_unknown_language_is_a_mistake_in_the_settings(detector: str) -> None:
    with pytest.raises(ConfigError, match=f"dataset.languages: {detector} does not know 'english'"):
        require_language(["english"], detector, 0.5)


def test_langdetect_judges_alike_in_every_process(seeded: Step) -> None:
    # Texts that it is unsure about; unseeded, its answer to such changes from run to run.
    texts = ["fortnite memes", "me ban straw memes", "joe mamma gay", "lwiay lwiay me", "damn girl u fine"]
    script = (
        "import sys\nfrom memeloom.dataset.steps.language import require_language\n"
        "from memeloom.dataset.steps.caption import Caption\n"
        "step = require_language(['en'], 'langdetect', 0.5)\n"
        "for t in sys.argv[1:]: sys.stdout.write(repr(step(Caption('a:1', 'a', 't', '', '', (t,), False, '')))+'\\n')"
    )
    answers = [
        subprocess.run(
            [sys.executable, "-c", script, *texts], capture_output=True, text=True, check=True, timeout=60
        ).stdout
        for _ in range(2)
    ]
    assert (
        answers[0]
        == answers[1]
        == "".join(f"{seeded(Caption('a:1', 'a', 't', '', '', (t,), False, ''))!r}\n" for t in texts)
    )
