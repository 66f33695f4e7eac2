"""Names from titles: what members agree on and others do not say."""

from memeloom.templates.naming import Titles, unnamed

ELSEWHERE = [f"when you see post number {number} on a monday" for number in range(60)]


def test_the_longest_run_of_words_that_half_of_the_titles_share() -> None:
    titles = [
        "Distracted Boyfriend again",
        "my distracted boyfriend",
        "DISTRACTED BOYFRIEND meme",
        "look at this",
        "hm",
    ]
    assert Titles(ELSEWHERE).name(titles) == "Distracted Boyfriend"


def test_what_is_said_everywhere_is_no_name() -> None:
    titles = ["when you see a cat", "when you see a dog", "when you see me", "when you see it"]
    assert Titles(ELSEWHERE).name(titles) is None


def test_one_word_is_a_name_only_if_many_other_titles_lack_it() -> None:
    titles = ["stonks", "Stonks!", "so stonks"]
    assert Titles([]).name(titles) is None
    assert Titles(ELSEWHERE).name(titles) == "stonks"


def test_too_few_titles_agree_on_nothing() -> None:
    assert Titles(ELSEWHERE).name(["grumpy owl", "grumpy owl"]) is None
    assert Titles(ELSEWHERE).name([]) is None


def test_nonsense_is_survived() -> None:
    assert Titles(["", "🙂🙂", "!!!"]).name(["🙂", "—", "\x00", "a" * 10_000]) is None


def test_the_nameless_are_told_apart_by_their_ids() -> None:
    assert unnamed("found:0123456789ab") == "Unnamed 0123456789ab"
