"""Text becomes numbers the same way in training and in generation."""

import string

import pytest

from memeloom.train.characters import PREFIX_WIDTH, Alphabet, prefix, template_code


def test_a_numeric_template_is_padded_with_zeros_as_in_the_article() -> None:
    assert prefix("61533", 0) == "000000061533  0  "


@pytest.mark.parametrize("template", ["one-does-not-simply", "Überfall", "1234567890123", "-1", "²", ""])
def test_any_other_template_has_twelve_digits(template: str) -> None:
    code = template_code(template)
    assert len(code) == 12
    assert set(code) <= set(string.digits)


def test_a_code_never_changes() -> None:
    assert template_code("one-does-not-simply") == "123468866035"
    assert template_code("one-does-not-simpIy") != template_code("one-does-not-simply")


def test_characters_are_numbered_by_frequency_from_one() -> None:
    alphabet = Alphabet.of("etao")
    assert alphabet.encode("aetO").tolist() == [3, 1, 2]


def test_the_alphabet_holds_what_a_prefix_needs_once() -> None:
    alphabet = Alphabet.of("e 7|")
    assert sorted(alphabet.characters) == sorted("e|" + string.digits + " ")
    assert alphabet.characters[:4] == ("e", " ", "7", "|")


def test_text_survives_there_and_back_without_what_is_unknown() -> None:
    alphabet = Alphabet.of("abcé|")
    assert alphabet.decode(alphabet.encode("a☃ béc|\0")) == "a béc|"


def test_prefixes_end_at_the_same_place_whatever_their_length() -> None:
    table = Alphabet.of("a").prefixes(["61533", "doge"], 12)
    assert table.shape == (2, 12, PREFIX_WIDTH)
    assert Alphabet.of("a").decode(table[0, 3]) == prefix("61533", 3)
    assert Alphabet.of("a").decode(table[1, 11]) == prefix("doge", 11)
    assert table[0, 3, 0] == 0
    assert table[1, 11].all()


@pytest.mark.parametrize(
    ("characters", "fitting"),
    [
        ("hi 𝐀", "hi 𝐀"),  # a capital that has no lower case
        ("hi H", "HI 𝐀"),
        ("hi ǅ", "HI 𝐀"),  # neither upper nor lower case, but there is a lower one
        ("hi ß2", "hi 𝐀"),
    ],
)
def test_texts_become_lower_case_if_no_character_known_has_another(characters: str, fitting: str) -> None:
    assert Alphabet.of(characters).normalize("HI 𝐀") == fitting
