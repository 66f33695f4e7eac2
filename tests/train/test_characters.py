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


def test_characters_are_numbered_by_frequency_from_one() -> None:
    alphabet = Alphabet.of("et 7|é")
    assert alphabet.characters == (*"et 7|é", *"012345689\n"), "with the characters of prefixes and the end, each once"
    assert alphabet.encode("teO").tolist() == [2, 1]
    assert alphabet.decode(alphabet.encode("t☃ tét|\0")) == "t tét|"


def test_prefixes_are_right_aligned() -> None:
    alphabet = Alphabet.of("doge")
    table = alphabet.prefixes(["61533", "doge"], 12)
    assert table.shape == (2, 12, PREFIX_WIDTH)
    assert table[0, 3, 0] == 0
    assert alphabet.decode(table[0, 3]) == prefix("61533", 3)
    assert table[1, 11].all()
    assert alphabet.decode(table[1, 11]) == prefix("doge", 11)


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
