"""Tell a joke that was read or typed again from another joke on the same phrase, on nearly the same picture.

Memes on one template look alike and share its phrase: of real pairs with half of their shingles in common, nearly all
are different jokes ("brace yourselves monday is coming", "brace yourselves winter is coming"). Errors of OCR and of
typing change single letters and spaces; another joke changes whole words. So letters are compared: their Levenshtein
distance, by the bit vectors of Myers (1999) and Hyyrö (2003).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

# Letters in one difference that is still taken for an error: in the whole text, and in what is left of it without the
# common words, in any order (sites and OCR order boxes differently). Chosen on one half of the templates
# (bench/dataset_copies).
_LETTERS: Final = 9
_LETTERS_LEFT: Final = 12
# What OCR confuses counts as equal.
_CONFUSED: Final = str.maketrans("0158", "oisb")


def is_misread(one: str, other: str) -> bool:
    """Return True if two normalised texts differ by errors of OCR or of typing only.

    Another number is another joke.
    """
    ours, theirs = one.split(), other.split()
    letters = min(_letters(ours), _letters(theirs))
    ours_left, theirs_left = _without(ours, theirs), _without(theirs, ours)
    numbers, theirs_numbers = _digits(ours_left), _digits(theirs_left)
    if numbers and theirs_numbers and numbers != theirs_numbers:
        return False
    if abs(_letters(ours_left) - _letters(theirs_left)) > max(letters // _LETTERS, 1):
        return False
    if _difference(ours_left, theirs_left) <= letters // _LETTERS_LEFT:
        return True
    return _difference(ours, theirs) <= max(letters // _LETTERS, 1)


def _digits(words: Sequence[str]) -> str:
    return "".join(filter(str.isdigit, "".join(words)))


def _letters(words: Sequence[str]) -> int:
    return sum(map(len, words))


def _without(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return `words` without those of `others`, each as often as it is there."""
    common = Counter(others)
    left = []
    for word in words:
        if common[word]:
            common[word] -= 1
        else:
            left.append(word)
    return left


def _difference(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Return the edit distance of words without their spaces, of which OCR loses some."""
    return edit_distance(*(_folded("".join(words)) for words in (ours, theirs)))


def _folded(text: str) -> str:
    return text.translate(_CONFUSED).replace("rn", "m").replace("vv", "w").replace("ri", "n")


def edit_distance(one: str, other: str) -> int:
    """Return the Levenshtein distance: characters to insert, delete or replace."""
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for at, letter in enumerate(one):
        places[letter] = places.get(letter, 0) | 1 << at
    every, last = (1 << len(one)) - 1, 1 << (len(one) - 1)
    # Bits of the rows of a column whose value is one more, and one less, than that of the row above.
    more, less, distance = every, 0, len(one)
    for letter in other:
        equal = places.get(letter, 0)
        level = (((equal & more) + more) ^ more) | equal | less
        up, down = less | every & ~(level | more), more & level
        distance += bool(up & last) - bool(down & last)
        up, down = up << 1 | 1, down << 1
        vertical = equal | less
        more, less = every & (down | ~(vertical | up)), up & vertical & every
    return distance
