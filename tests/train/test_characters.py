"""Text is encoded in the same way for training and generation."""

import string

import pytest

from memeloom.train.characters import PREFIX_WIDTH, Alphabet, prefix, template_code


def test_a_numeric_template_is_padded_with_zeros_as_in_the_article() -> None:
    assert prefix("61533", 0) == "000000061533  0  "


@pytest.mark.parametrize("template", ["one-does-not-simply", "Überfall", "1234567890123", "-1", "²", ""])
def test_any_other_template_has_a_code_of_twelve_digits(template: str) -> None:
    code = template_code(template)
    assert len(code) == 12
    assert set(code) <= set(string.digits)


def test_template_codes_are_stable() -> None:
    assert template_code("one-does-not-simply") == "123468866035"
    assert template_code("one-does-not-simpIy") != template_code("one-does-not-simply")


def test_characters_are_numbered_by_frequency_from_one() -> None:
    alphabet = Alphabet.of("etao")
    assert alphabet.encode("aetO").tolist() == [3, 1, 2]


def test_the_alphabet_holds_the_characters_of_prefixes_once() -> None:
    alphabet = Alphabet.of("e 7|")
    assert sorted(alphabet.characters) == sorted("e|" + string.digits + " ")
    assert alphabet.characters[:4] == ("e", " ", "7", "|")


def test_encoding_and_decoding_drops_only_unknown_characters() -> None:
    alphabet = Alphabet.of("abcé|")
    assert alphabet.decode(alphabet.encode("a☃ béc|\0")) == "a béc|"


def test_prefixes_are_right_aligned() -> None:
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
def test_texts_are_lower_cased_if_the_alphabet_has_no_capitals(characters: str, fitting: str) -> None:
    assert Alphabet.of(characters).normalize("HI 𝐀") == fitting
