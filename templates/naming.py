"""What a template that was found is called, if the titles of its memes agree on something."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_MOST_WORDS = 6
_LEAST_TITLES = 3
_SHARE = 0.5  # of the members' titles that say it
_ELSEWHERE = 0.02  # of other titles that may say it too
_LEAST_ELSEWHERE = 50
_NEARLY = 0.8


class Titles:
    """How often runs of words stand in the titles of memes at large."""

    def __init__(self, titles: Iterable[str]) -> None:
        self._seen: Counter[str] = Counter()
        self._n = 0
        for title in titles:
            self._n += 1
            self._seen.update({phrase for phrase, _ in _phrases(title)})

    def name(self, titles: Sequence[str]) -> str | None:
        """The longest run of words that half of `titles` share and that other titles rarely hold; None if none is."""
        found: Counter[str] = Counter()
        spelled: dict[str, str] = {}
        for title in titles:
            phrases = dict(_phrases(title))
            found.update(phrases.keys())
            for phrase, spelling in phrases.items():
                spelled.setdefault(phrase, spelling)
        least = max(_LEAST_TITLES, _SHARE * len(titles))
        shared = {phrase: n for phrase, n in found.items() if n >= least and self._is_rare(phrase, n)}
        if not shared:
            return None
        most = max(shared.values())
        return spelled[max((p for p, n in shared.items() if n >= _NEARLY * most), key=lambda p: (p.count(" "), p))]

    def _is_rare(self, phrase: str, among_members: int) -> bool:
        """Whether members say it oftener than chance has it. One word needs many other titles to tell."""
        if self._n < _LEAST_ELSEWHERE:
            return " " in phrase
        return self._seen[phrase] - among_members <= _ELSEWHERE * self._n


def _phrases(title: str) -> list[tuple[str, str]]:
    """Runs of words of `title` in small letters, each with its spelling there."""
    words = [match.group() for match in _WORD.finditer(title[:300])]
    return [
        (" ".join(words[start:end]).lower(), " ".join(words[start:end]))
        for start in range(len(words))
        for end in range(start + 1, min(start + _MOST_WORDS, len(words)) + 1)
    ]


def unnamed(template_id: str) -> str:
    """What a template without a name is called."""
    return f"Unnamed {template_id.removeprefix('found:')}"
