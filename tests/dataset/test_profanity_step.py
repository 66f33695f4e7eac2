"""The profanity step: whole words of the wanted tiers go in any disguise, ordinary ones stay, no reason quotes."""

import pytest

from memeloom.configs.load import load_config
from memeloom.dataset.steps.caption import Caption
from memeloom.dataset.steps.ordinary import ORDINARY
from memeloom.dataset.steps.profanity import WordList, censor_profanity, forbid_profanity
from memeloom.dataset.steps.tiers import TIERS, read_list, read_spellings, read_tiers
from memeloom.engine.steps import Drop, Keep


def caption(*boxes: str, name: str = "Name") -> Caption:
    return Caption("imgflip:1", "imgflip", "t", name, "slug", boxes, False, "")


@pytest.fixture(scope="module")
def words() -> WordList:
    return WordList()


def worst(words: WordList, text: str) -> tuple[str, str]:
    """The tier and the entry that a caption of `text` is dropped for."""
    outcome = forbid_profanity(words)(caption("clean", text))
    assert isinstance(outcome, Drop), text
    return outcome.reason.removeprefix("profanity: "), outcome.detail


@pytest.mark.parametrize(
    ("text", "tier", "entry"),
    [
        ("this is bullshit", "strong", "bullshit"),
        ("BULLSHIT!", "strong", "bullshit"),
        ("well, shit.", "strong", "shit"),
        ("*looks like shit*", "strong", "shit"),
        ("don't give a shit's worth", "strong", "shit"),
        ("shit-canned", "strong", "shit"),
        ("a blow job offer", "strong", "blow job"),
        ("such a shitty day", "strong", "shitty"),
        ("you assholes", "strong", "assholes"),
        ("son of a bitch", "strong", "son of a bitch"),
        ("no fkn reason", "strong", "fkn"),
        ("to fuking school", "strong", "fuking"),
        ("crappy weather", "mild", "crappy"),
        ("too damn high", "mild", "damn"),
        ("wtf", "mild", "wtf"),
        ("stfu noob", "mild", "stfu"),
        ("what a douche", "mild", "douche"),
        ("you dumbass", "mild", "dumbass"),
        ("a retarded idea", "slur", "retarded"),
        ("my niggas", "slur", "niggas"),
    ],
)
def test_the_tier_and_the_entry_of_a_word(words: WordList, text: str, tier: str, entry: str) -> None:
    assert worst(words, text) == (tier, entry)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        # signs and digits for letters
        ("you pr1ck", "prick"),
        ("what a d!ck move", "dick"),
        ("oh sh!t", "shit"),
        ("b!tch please", "bitch"),
        ("@sshole", "asshole"),
        ("kiss my a$$", "ass"),
        ("welcome to the sh!thole", "shithole"),
        ("$#!t", "shit"),
        # accents and look-alikes
        ("fück", "fuck"),
        ("ѕhіt", "shit"),
        # stretched
        ("fuuuuck", "fuck"),
        ("FFFUUUCCCKKK", "fuck"),
        ("fuuck", "fuck"),
        ("shiiiiit", "shit"),
        ("daaaamn", "damn"),
        ("asssss", "ass"),
        ("assssshooole", "asshole"),
        # spaced
        ("f u c k", "fuck"),
        ("F.U.C.K.", "fuck"),
        ("what the f-u-c-k", "fuck"),
        ("u r a b i t c h", "bitch"),
        ("f u c k you", "fuck"),
        # starred
        ("what the f*ck", "fuck"),
        ("f**k yourself", "fuck"),
        ("f**king b**ch", "fucking"),
        ("f*ing", "fucking"),
        ("what the f***", "fuck"),
        ("motherf**ker", "motherfucker"),
        ("mother******", "motherfucker"),
        ("a**hole", "asshole"),
        ("f#ck this", "fuck"),
        ("go***amn it", "goddamn"),
        ("d*mn", "damn"),
        ("n***er", "nigger"),
    ],
)
def test_a_word_is_found_in_any_disguise(words: WordList, text: str, entry: str) -> None:
    assert entry in {found.entry for found in words.find(text)}


@pytest.mark.parametrize(
    "text",
    [
        "oh my god what the hell, omg", "my gay friend is a virgin", "they kill time in scunthorpe, essex",
        "the class passes the bass assessment on the grass", "shiitake, shiites, dickens and cockpit",
        "this gal is 45s late", "weed and vodka on a sandbar", "hitler was a nazi", "455 people, 80085 points",
        "pass it as shown", "as sure as eggs", "if u can read this", "if u cud stop", "if u know", "u c k", "i c u p",
        "j. r. r. tolkien", "u.s.s.r. and u s a", "f u n", "a s a p", "i f u c", "d i d y o u t h i n k",
        "goooood booook", "noooob", "class!!!", "at&t", "m&m's", "2*2*2", "****", "!@#$%", "*inhales*",
        "t_t and t^t", "moby dick", "dick cheney", "maine coon", "ding dong", "tit for tat", "chink in the armor",
        "great scott, a cocktail in sussex", "grapes", "a hole in the ground", "hard on myself", "lez go", "booby trap",
        "rapper", "peacock hancock", "therapist", "titanic", "document", "analysis", "shuttle", "kung fu", "assassin",
    ],
)  # fmt: skip
def test_ordinary_words_stay(words: WordList, text: str) -> None:
    assert forbid_profanity(words)(caption(text)) == Keep(caption(text))


def test_a_word_that_two_boxes_make_together_is_none(words: WordList) -> None:
    assert forbid_profanity(words)(caption("a blow", "job offer")) == Keep(caption("a blow", "job offer"))


def test_the_worst_word_of_a_caption_gives_the_reason(words: WordList) -> None:
    assert worst(words, "damn that retarded shit") == ("slur", "retarded")
    assert worst(words, "damn that shit") == ("strong", "shit")


@pytest.mark.parametrize("tier", TIERS)
def test_only_the_wanted_tiers_count(tier: str) -> None:
    examples = {"mild": "crappy", "strong": "shitty", "slur": "retarded"}
    step = forbid_profanity(WordList([each for each in TIERS if each == tier]))
    for each, word in examples.items():
        outcome = Drop(f"profanity: {tier}", word) if each == tier else Keep(caption(word))
        assert step(caption(word)) == outcome


def test_what_a_meme_says_mildly_is_fine_by_default() -> None:
    settings = load_config(environment={}).dataset
    step = forbid_profanity(WordList(settings.profanity_tiers))
    assert step(caption("is too damn high")) == Keep(caption("is too damn high"))
    assert step(caption("is too f*cking high")) == Drop("profanity: strong", "fucking")


def test_names_of_templates_are_filtered_too(words: WordList) -> None:
    assert forbid_profanity(words)(caption("clean", name="Bitch Please")) == Drop(
        "profanity in the template's name", "bitch"
    )
    assert censor_profanity(words)(caption("clean", name="Bitch Please")) == Keep(caption("clean", name="***** Please"))


def test_every_entry_of_the_list_is_in_a_tier_or_ordinary_and_found_accordingly(words: WordList) -> None:
    tiers, spellings = read_tiers(), read_spellings()
    for entry in read_list():
        found = {each.entry for each in words.find(f"so {entry} it is")}
        assert bool(found) == (entry not in ORDINARY), entry
        assert (entry in ORDINARY) != (spellings.get(entry, entry) in tiers), entry


def test_every_word_of_a_tier_is_found_in_that_tier(words: WordList) -> None:
    for entry, tier in read_tiers().items():
        assert (entry, tier) in {(found.entry, found.kind) for found in words.find(f"so {entry} it is")}, entry


def test_every_ordinary_word_is_an_entry_of_the_list() -> None:
    assert set(read_list()) >= ORDINARY


def test_the_user_allows_and_denies() -> None:
    step = forbid_profanity(WordList(allow=["Bullshit"], deny=["god", "Moist"]))
    assert step(caption("this is bullshit")) == Keep(caption("this is bullshit"))
    assert step(caption("moist cake")) == Drop("profanity: denied", "moist")
    assert step(caption("oh g0d")) == Drop("profanity: denied", "god")
    assert step(caption("m o i s t")) == Drop("profanity: denied", "moist")
    assert step(caption("moiiiist")) == Drop("profanity: denied", "moist")
    assert step(caption("moisture")) == Keep(caption("moisture"))


def test_what_is_allowed_is_allowed_in_every_disguise() -> None:
    step = forbid_profanity(WordList(allow=["shit"]))
    for text in ("oh shit", "oh sh1t", "oh shiiiit", "s h i t"):
        assert step(caption(text)) == Keep(caption(text)), text
    assert step(caption("shitty")) == Drop("profanity: strong", "shitty")


def test_what_is_denied_wins_over_what_is_allowed_and_over_tiers() -> None:
    deny = WordList(tiers=["slur"], allow=["moist"], deny=["moist", "crap"])
    assert forbid_profanity(deny)(caption("moist")) == Drop("profanity: denied", "moist")
    assert forbid_profanity(deny)(caption("crap")) == Drop("profanity: denied", "crap")


def test_no_reason_and_no_detail_quotes_the_caption(words: WordList) -> None:
    for text in ("secret f**k secret", "secret fuuuuck", "secret f u c k", "SECRET FUCK"):
        outcome = forbid_profanity(words)(caption(text))
        assert outcome == Drop("profanity: strong", "fuck")


@pytest.mark.parametrize(
    ("text", "censored"),
    [
        ("oh SH1T, bullshit again", "oh ****, ******** again"),
        ("fuuuuck off", "******* off"),
        ("what the f u c k", "what the *******"),
        ("f**king great", "******* great"),
        ("İİ shit İ", "İİ **** İ"),
        ("clean", "clean"),
    ],
)
def test_censoring_stars_the_word_and_nothing_else(words: WordList, text: str, censored: str) -> None:
    assert censor_profanity(words)(caption(text, "clean")) == Keep(caption(censored, "clean"))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "hostile", ["f*" * 50_000, "a " * 50_000, "f" * 100_000, "*a" * 50_000, "f u c " * 16_000, "fuuu " * 20_000]
)
def test_hostile_text_takes_no_longer_than_its_length(words: WordList, hostile: str) -> None:
    words.find(hostile)
