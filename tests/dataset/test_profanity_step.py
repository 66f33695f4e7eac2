"""The profanity step: whole words in any disguise go, ordinary words stay, and the reason never quotes."""

import pytest

from dataset.steps.contract import Caption, Drop, Keep
from dataset.steps.ordinary import ORDINARY
from dataset.steps.profanity import WordList, censor_profanity, forbid_profanity, read_list


def caption(*boxes: str) -> Caption:
    return Caption("imgflip:1", "imgflip", "t", "Name", "slug", boxes, False, "")


@pytest.fixture(scope="module")
def words() -> WordList:
    return WordList()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("this is bullshit", "profanity: listed"),
        ("BULLSHIT!", "profanity: listed"),
        ("well, shit.", "profanity: listed"),
        ("a blow job offer", "profanity: listed"),
        ("oh sh1t", "profanity: listed"),
        ("you pr1ck", "profanity: disguised"),
        ("what a d!ck move", "profanity: disguised"),
        ("what the f*ck", "profanity: disguised"),
        ("kiss my a$$", "profanity: disguised"),
        ("@sshole", "profanity: disguised"),
        ("*looks like shit*", "profanity: listed"),
        ("don't give a shit's worth", "profanity: listed"),
    ],
)
def test_profanity_is_found_in_any_disguise(words: WordList, text: str, reason: str) -> None:
    assert forbid_profanity(words)(caption("clean", text)) == Drop(reason)


@pytest.mark.parametrize(
    "text",
    [
        "oh my god what the hell, omg",
        "my gay friend is a virgin",
        "they kill time in scunthorpe",
        "the class passes the bass assessment",
        "shiitake, dickens and cockpit",
        "this gal is 45s late",
        "weed and vodka on a sandbar",
        "hitler was a nazi",
        "455 people, 80085 points",
    ],
)
def test_ordinary_words_stay(words: WordList, text: str) -> None:
    assert forbid_profanity(words)(caption(text)) == Keep(caption(text))


def test_a_word_that_two_boxes_make_together_is_none(words: WordList) -> None:
    assert forbid_profanity(words)(caption("a blow", "job offer")) == Keep(caption("a blow", "job offer"))


def test_every_entry_that_is_not_ordinary_is_found_and_no_ordinary_one(words: WordList) -> None:
    for entry in read_list():
        found = {text[f.start : f.end] for text in [f"so {entry} it is"] for f in words.find(text)}
        if entry in ORDINARY:
            assert entry not in found
        else:
            assert found, entry


def test_every_ordinary_word_is_an_entry_of_the_list() -> None:
    assert set(read_list()) >= ORDINARY


def test_the_user_allows_and_denies() -> None:
    step = forbid_profanity(WordList(allow=["Bullshit"], deny=["god", "Moist"]))
    assert step(caption("this is bullshit")) == Keep(caption("this is bullshit"))
    assert step(caption("moist cake")) == Drop("profanity: denied")
    assert step(caption("oh g0d")) == Drop("profanity: denied")
    assert step(caption("moisture")) == Keep(caption("moisture"))


def test_what_is_denied_wins_over_what_is_allowed() -> None:
    assert forbid_profanity(WordList(allow=["moist"], deny=["moist"]))(caption("moist")) == Drop("profanity: denied")


def test_censoring_stars_the_word_and_nothing_else(words: WordList) -> None:
    step = censor_profanity(words)
    assert step(caption("oh SH1T, bullshit again", "clean")) == Keep(caption("oh ****, ******** again", "clean"))
    assert step(caption("clean")) == Keep(caption("clean"))


def test_censoring_hits_the_right_letters_behind_ones_that_grow_in_lower_case(words: WordList) -> None:
    assert censor_profanity(words)(caption("İİ shit İ")) == Keep(caption("İİ **** İ"))


def test_the_verdicts_are_those_of_better_profanity_where_both_take_whole_words() -> None:
    from better_profanity import Profanity

    judge = Profanity()
    words = WordList(deny=ORDINARY)
    # Written with a capital or a star in its list, it never finds these.
    missed = {"asanchez", "kinkyjesus", "len", "masterbat"}
    entries = [entry for entry in read_list() if entry.isalpha() and entry not in missed][::6]
    assert len(entries) > 100
    texts = [f"so {entry} it is" for entry in entries] + [f"so x{entry}x it is" for entry in entries]
    ours = [next(words.find(text), None) is not None for text in texts]
    assert ours == [judge.contains_profanity(text) for text in texts]
