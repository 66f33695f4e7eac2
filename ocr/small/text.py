"""Texts of lines to draw: captions, any words side by side, numbers and signs, now and then with a letter changed.

Changed letters and words without context teach the network to read what is there, not what would make sense.
"""

from collections.abc import Sequence
from random import Random
from string import ascii_letters, ascii_lowercase, digits

_LONGEST = 50
# Mean and deviation of the characters of a line, and its bounds.
_LENGTH, _DEVIATION, _LEAST, _MOST = 20, 11, 2, 46


class Texts:
    """Endless random lines.

    captions: to cut lines from, none of them blank. characters: all others are left out; the last is the space.

    Raises:
        ValueError: no word of the captions has only these characters.
    """

    def __init__(self, captions: Sequence[str], characters: str, chance: Random) -> None:
        self._captions = captions
        self._characters = frozenset(characters)
        self._signs = characters[:-1]
        self._chance = chance
        words = {word for caption in captions[:60_000] for word in caption.split() if len(word) < 18}
        self._words = sorted(word for word in words if self._characters.issuperset(word))
        if not self._words:
            raise ValueError("the captions have no word that the network can read")

    def line(self) -> str:
        """Return a line of 1 to 50 characters, as the network should read it."""
        while True:
            text = self._varied(self._cut(self._some_words()))
            text = " ".join("".join(letter for letter in text if letter in self._characters).split())
            if 0 < len(text) <= _LONGEST:
                return text

    def caption(self) -> str:
        """Return a whole caption of one character or more."""
        while True:
            text = self._varied(self._chance.choice(self._captions))
            text = " ".join("".join(letter for letter in text if letter in self._characters).split())
            if text:
                return text

    def _some_words(self) -> list[str]:
        kind = self._chance.random()
        if kind < 0.72:
            return self._chance.choice(self._captions).split()
        if kind < 0.92:
            # A rare word or name as often as a common word.
            words = [self._chance.choice(self._words) for _ in range(self._chance.randint(1, 7))]
            return [word.capitalize() for word in words] if self._chance.random() < 0.4 else words
        return [self._number_or_sign() for _ in range(self._chance.randint(1, 4))]

    def _number_or_sign(self) -> str:
        chance = self._chance
        match chance.randrange(6):
            case 0:
                return str(chance.randint(0, 10 ** chance.randint(1, 5)))
            case 1:
                return f"${chance.randint(1, 99_999)}"
            case 2:
                return f"{chance.randint(0, 23)}:{chance.randint(0, 59):02d}"
            case 3:
                return chance.choice("@#") + self._random(ascii_lowercase + "_" + digits, 3, 12)
            case 4:
                return self._random(self._signs, 1, 6)
            case _:
                return self._random(ascii_letters, 2, 8)

    def _cut(self, words: Sequence[str]) -> str:
        most = min(max(_LEAST, round(self._chance.gauss(_LENGTH, _DEVIATION))), _MOST)
        start = self._chance.randrange(len(words))
        text = words[start]
        for word in words[start + 1 :]:
            if len(text) + 1 + len(word) > most:
                break
            text += f" {word}"
        return text

    def _varied(self, text: str) -> str:
        chance = self._chance
        if chance.random() < 0.06 and len(text) > 3:
            place = chance.randrange(len(text))
            text = text[:place] + chance.choice(ascii_letters) + text[place + 1 :]
        if chance.random() < 0.04:
            text = text.replace("'", "’")
        if chance.random() < 0.03:
            text = chance.choice(("“{}”", '"{}"')).format(text)
        if chance.random() < 0.045:
            text = chance.choice(("{}…", "• {}", "– {}", "— {}", "- {}")).format(text)
        case = chance.choices((str.upper, str.title, str.lower, str), (45, 5, 3, 47))[0]
        return case(text)

    def _random(self, letters: str, least: int, most: int) -> str:
        return "".join(self._chance.choice(letters) for _ in range(self._chance.randint(least, most)))
