"""Names from titles: phrases of the members that other titles lack."""

from memeloom.templates.naming import Titles

ELSEWHERE = [f"when you see post number {number} on a monday" for number in range(60)]


def test_the_name_is_the_longest_phrase_of_half_of_the_titles() -> None:
    titles = [
        "Distracted Boyfriend again",
        "my distracted boyfriend",
        "DISTRACTED BOYFRIEND meme",
        "look at this",
        "hm",
    ]
    assert Titles(ELSEWHERE).name(titles) == "Distracted Boyfriend"


def test_a_common_phrase_is_not_a_name() -> None:
    titles = ["when you see a cat", "when you see a dog", "when you see me", "when you see it"]
    assert Titles(ELSEWHERE).name(titles) is None


def test_one_word_is_a_name_only_if_many_other_titles_lack_it() -> None:
    titles = ["stonks", "Stonks!", "so stonks"]
    assert Titles([]).name(titles) is None
    assert Titles(ELSEWHERE).name(titles) == "stonks"


def test_too_few_titles_agree_on_nothing() -> None:
    assert Titles(ELSEWHERE).name(["grumpy owl", "grumpy owl"]) is None
    assert Titles(ELSEWHERE).name([]) is None


def test_odd_titles_give_no_name() -> None:
    assert Titles(["", "🙂🙂", "!!!"]).name(["🙂", "—", "\x00", "a" * 10_000]) is None
