"""Captions without the words that a dataset leaves out: `dataset.steps.profanity` while they are written."""

from memeloom.configs.schema import Dataset
from memeloom.dataset.steps.profanity import WordList
from memeloom.train.contract import Captioner
from memeloom.train.decoding.draft import Draft

# Tokens that may be refused in one place of a caption; it is given up then.
TRIES = 16


class Censor:
    """Refuses to let a caption say a word of a list, as soon as the word is complete.

    A word is complete when something that is no letter stands behind it, or when nothing more comes: until then it
    may become another ("ass", "assume"). refused: how many times a token was, so far.
    """

    def __init__(self, words: WordList, model: Captioner) -> None:
        self.refused = 0
        self._words, self._separator = words, model.separator
        self._grows = _words_grow(model)

    @classmethod
    def of(cls, settings: Dataset, model: Captioner) -> "Censor":
        """A censor with the lists of the dataset's settings, whatever these do with a caption that has such a word."""
        words = WordList(settings.profanity_tiers, settings.profanity_allow, settings.profanity_deny)
        return cls(words, model)

    def allows(self, draft: Draft) -> bool:
        """Whether `draft` may stand like this; counted if not."""
        whole = "\n".join(draft.written().texts) if draft.done else None
        allowed = self.passes(draft.text) if whole is None else not self._words.find(whole)
        self.refused += not allowed
        return allowed

    def passes(self, text: str) -> bool:
        """Whether a caption may begin with `text`, in which the separator ends boxes."""
        found = self._words.find(text.replace(self._separator, "\n"))
        return not any(each.end < len(text) or not self._grows for each in found)


def _words_grow(model: Captioner) -> bool:
    """Whether a token may go on with the word that the one before began, as characters and pieces of words do."""
    tokens = range(len(model.closes))
    first = next((token for token in tokens if model.text([token])[-1:].isalnum()), None)
    if first is None:
        return False
    begun = len(model.text([first]))
    return any(model.text([first, token])[begun : begun + 1].isalnum() for token in tokens)
