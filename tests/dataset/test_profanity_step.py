"""The profanity step drops whole words of the wanted tiers in any disguise, and keeps ordinary words."""

import pytest

from memeloom.dataset.steps.caption import Caption
from memeloom.dataset.steps.ordinary import ORDINARY
from memeloom.dataset.steps.profanity import WordList, censor_profanity, forbid_profanity
from memeloom.dataset.steps.tiers import read_list, read_spellings, read_tiers
from memeloom.engine.steps import Drop, Keep


def caption(*boxes: str, name: str = "Name") -> Caption:
    return Caption("imgflip:1", "imgflip", "t", name, "slug", boxes)


@pytest.fixture(scope="module")
def words() -> WordList:
    return WordList()


@pytest.mark.parametrize(
    ("text", "tier", "entry"),
    [
        ("BULLSHIT!", "strong", "bullshit"),
        ("*looks like shit*", "strong", "shit"),
        ("don't give a shit's worth", "strong", "shit"),
        ("shit-canned", "strong", "shit"),
        ("a blow job offer", "strong", "blow job"),
        ("son of a bitch", "strong", "son of a bitch"),
        ("too damn high", "mild", "damn"),
        ("a retarded idea", "slur", "retarded"),
        ("damn that retarded shit", "slur", "retarded"),
        ("damn that shit", "strong", "shit"),
        ("SECRET f**k secret", "strong", "fuck"),
    ],
)
def test_the_reason_is_the_tier_of_the_worst_word_and_the_detail_its_entry(
    words: WordList, text: str, tier: str, entry: str
) -> None:
    assert forbid_profanity(words)(caption("clean", text)) == Drop(f"profanity: {tier}", entry)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        # signs and digits for letters
        ("you pr1ck", "prick"),
        ("what a d!ck move", "dick"),
        ("@sshole", "asshole"),
        ("kiss my a$$", "ass"),
        ("$#!t", "shit"),
        # accents and look-alikes
        ("fück", "fuck"),
        ("ѕhіt", "shit"),
        # stretched
        ("FFFUUUCCCKKK", "fuck"),
        ("fuuck", "fuck"),
        ("asssss", "ass"),
        ("assssshooole", "asshole"),
        ("FUUCCCKKKK!", "fuck"),
        ("shiiiit!!", "shit"),
        # spaced
        ("F.U.C.K.", "fuck"),
        ("what the f-u-c-k", "fuck"),
        ("u r a b i t c h", "bitch"),
        ("f u c k you", "fuck"),
        # starred
        ("f**king b**ch", "fucking"),
        ("f*ing", "fucking"),
        ("what the f***", "fuck"),
        ("mother******", "motherfucker"),
        ("f#ck this", "fuck"),
        ("go***amn it", "goddamn"),
        ("motherf*ucker", "motherfucker"),
        ("shut the fu***ck up", "fuck"),
        # misspelt
        ("are you retarted", "retarted"),
        ("what da fuq", "fuq"),
        ("get the f*uk out", "fuk"),
        ("what you say nigaaa", "niga"),
    ],
)
def test_disguised_words_are_found(words: WordList, text: str, entry: str) -> None:
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
        "t_t and t^t", "moby dick", "dick cheney",
        "pussy willow", "a coon cat", "retard the growth of crops", "david pecker talks", "whitey bulger", "doo wop",
        "prick your finger", "*cocks gun*", "a rectal thermometer",
        "maine coon", "ding dong", "tit for tat", "chink in the armor",
        "great scott, a cocktail in sussex", "grapes", "a hole in the ground", "hard on myself", "lez go", "booby trap",
        "rapper", "peacock hancock", "therapist", "titanic", "document", "analysis", "shuttle", "kung fu", "assassin",
    ],
)  # fmt: skip
def test_ordinary_words_are_kept(words: WordList, text: str) -> None:
    assert forbid_profanity(words)(caption(text)) == Keep(caption(text))


def test_two_boxes_never_make_a_word_together(words: WordList) -> None:
    assert forbid_profanity(words)(caption("a blow", "job offer")) == Keep(caption("a blow", "job offer"))


def test_names_of_templates_are_filtered(words: WordList) -> None:
    named = caption("clean", name="Bitch Please")
    assert forbid_profanity(words)(named) == Drop("profanity in the template's name", "bitch")
    assert censor_profanity(words)(named) == Keep(caption("clean", name="***** Please"))


def test_every_entry_of_the_list_is_either_ordinary_or_in_a_tier_and_found(words: WordList) -> None:
    tiers, spellings = read_tiers(), read_spellings()
    assert set(read_list()) >= ORDINARY
    for entry in read_list():
        assert any(words.find(f"so {entry} it is")) == (entry not in ORDINARY), entry
        assert (entry in ORDINARY) != (spellings.get(entry, entry) in tiers), entry
    for entry, tier in tiers.items():
        assert (entry, tier) in {(found.entry, found.kind) for found in words.find(f"so {entry} it is")}, entry


@pytest.mark.parametrize(
    ("text", "reason", "entry"),
    [
        ("oh shit, sh1t, shiiiit, s h i t", "", ""),
        ("shitty", "profanity: strong", "shitty"),
        ("moist cake", "profanity: denied", "moist"),
        ("m o i s t", "profanity: denied", "moist"),
        ("moiiiist", "profanity: denied", "moist"),
        ("oh g0d", "profanity: denied", "god"),
        ("crap", "profanity: denied", "crap"),
        ("moisture", "", ""),
    ],
)
def test_allowed_and_denied_words_in_any_disguise(text: str, reason: str, entry: str) -> None:
    words = WordList(tiers=["strong"], allow=["Shit", "moist"], deny=["god", "Moist", "crap"])
    expected = Drop(reason, entry) if reason else Keep(caption(text))
    assert forbid_profanity(words)(caption(text)) == expected


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
def test_censoring_replaces_the_letters_of_the_word(words: WordList, text: str, censored: str) -> None:
    assert censor_profanity(words)(caption(text, "clean")) == Keep(caption(censored, "clean"))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "hostile", ["f*" * 50_000, "a " * 50_000, "f" * 100_000, "*a" * 50_000, "f u c " * 16_000, "fuuu " * 20_000]
)
def test_hostile_text_takes_linear_time(words: WordList, hostile: str) -> None:
    words.find(hostile)


def test_the_end_of_a_starred_word_is_no_word_of_its_own() -> None:
    assert [found.entry for found in WordList().find("you little b**tard")] == ["bastard"]
    assert WordList(("strong", "slur")).find("you little b**tard") == []
    assert [found.entry for found in WordList().find("he is such a **tard**")] == ["tard"]
