"""A dataset's folder, read into memory and found to be of one piece."""

from pathlib import Path

from memeloom.configs.errors import MemeloomError
from memeloom.dataset.manifest import file_sha256, read_manifest
from memeloom.dataset.vocabulary import read_vocabulary
from memeloom.train.characters import Alphabet
from memeloom.train.contract import Dataset
from memeloom.train.corpus import read_captions


def open_dataset(folder: Path) -> Dataset:
    """Read the training and validation captions of the dataset in `folder`, 3 bytes a character.

    Raises:
        NotADataset: no dataset, one of another version, or it lacks a file.
        DamagedRecords: a shard is damaged; the line names file and place.
        MemeloomError: a split is empty, vocabulary or words are of another dataset, or the folder changed meanwhile.
    """
    manifest = read_manifest(folder)
    for file in (manifest.vocabulary, manifest.word_list):
        if file_sha256(folder / file.name) != file.sha256:
            raise MemeloomError(f"{folder / file.name}: not of this dataset; build the dataset again")
    alphabet = Alphabet.of(read_vocabulary(folder).characters)
    learn, check = (read_captions(folder, manifest, split, alphabet) for split in ("train", "validation"))
    if read_manifest(folder) != manifest:
        raise MemeloomError(f"{folder}: another dataset was written there while it was read; train again")
    return Dataset(folder, manifest, alphabet, learn, check)
