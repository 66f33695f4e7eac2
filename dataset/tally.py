"""What is counted while records are written: the numbers of manifest, vocabulary and card."""

from collections import Counter
from pathlib import Path

from dataset.schema import SPLITS, DatasetRecord, Split
from dataset.select import TemplateTally
from dataset.words import WordTally, split_words

_SAMPLES = 12
_BUFFERED_TEXTS = 2000


class RecordTally:
    """Counts records; memory grows with the templates and characters, not with the records.

    boxes: captions of a template by their number of boxes. lengths: records by characters of their boxes.
    samples: the first records for training, which stand in random order.
    words: a folder that is not there, for counts of words that memory cannot hold.
    """

    def __init__(self, words: Path) -> None:
        self.splits: dict[Split, int] = dict.fromkeys(SPLITS, 0)
        self.sources: Counter[str] = Counter()
        self.templates: dict[str, TemplateTally] = {}
        self.lengths: Counter[int] = Counter()
        self.samples: list[DatasetRecord] = []
        self._characters: Counter[str] = Counter()
        self._texts: list[str] = []
        self._words = WordTally(words)

    def add(self, split: Split, slug: str, record: DatasetRecord) -> None:
        """Count one record; `slug` is its template's."""
        self.splits[split] += 1
        self.sources[record.source] += 1
        tally = self.templates.get(record.template)
        if tally is None:
            tally = self.templates[record.template] = TemplateTally(record.template_name, slug)
        tally.boxes[len(record.boxes)] += 1
        self.lengths[sum(map(len, record.boxes))] += 1
        if split == "train" and len(self.samples) < _SAMPLES:
            self.samples.append(record._replace(image=None))
        self._texts.append(record.text)
        if len(self._texts) >= _BUFFERED_TEXTS:
            self._count_texts()

    def characters(self) -> Counter[str]:
        """How often each character stands in the texts so far."""
        self._count_texts()
        return self._characters

    def words(self, least: int, most: int) -> list[tuple[str, int]]:
        """The `most` most frequent words that stand at least `least` times in the texts; to be asked once."""
        self._count_texts()
        return self._words.most_common(least, most)

    def _count_texts(self) -> None:
        self._characters.update("".join(self._texts))
        self._words.add(split_words("\n".join(self._texts)))
        self._texts.clear()
