"""Training, decoding and scoring of Show and Tell."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.progress import Progress
from memeloom.configs.schema import ShowAndTell, Train
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.dataset.vocabulary import read_words
from memeloom.train.backend import ACCELERATED, compiled, keras
from memeloom.train.characters import Alphabet
from memeloom.train.contract import ALL_BOXES, CaptionScores, KindName, ModelParts, Prompt, TrainingTask
from memeloom.train.corpus import Captions, Dataset
from memeloom.train.pictures.encoder import Encoder, open_encoder
from memeloom.train.pictures.vectors import TemplatePictures, picture_vectors
from memeloom.train.show_and_tell.batches import Rows, Texts
from memeloom.train.show_and_tell.network import build_decoder, fit_statistics, open_step
from memeloom.train.show_and_tell.words import UNKNOWN, Words, spacing_nats, unusual_spaces

_ENCODER, _DECODER = "encoder", "decoder"
_WORDS, _CHARACTERS, _PICTURES = "words.json", "vocabulary.json", "pictures.npy"
_BATCH = 64
# Scoring pads rows to a multiple of this length.
_WIDTHS = 16
_SPACED_CAPTIONS = 20_000


class ShowAndTellCaptioner:
    """Writes a caption word by word for a picture, or for a template from the mean vector of its pictures.

    odd_spaces: share of the gaps between words with unusual spaces, in the training captions.
    """

    kind: ClassVar[KindName] = "show-and-tell"
    unit: ClassVar[str] = "word"
    uses_pictures = True

    def __init__(
        self,
        template_pictures: TemplatePictures,
        decoder: Any,
        words: Words,
        alphabet: Alphabet,
        templates: tuple[DatasetTemplate, ...],
        odd_spaces: float,
    ) -> None:
        if decoder.output_shape[0][-1] != len(words):
            raise ValueError("its parts do not fit together")
        self.template_pictures, self.decoder, self.words, self.alphabet = template_pictures, decoder, words, alphabet
        self.templates, self.separator = templates, words.separator
        self.networks: Mapping[str, Any] = {_ENCODER: template_pictures.encoder.network, _DECODER: decoder}
        self.settings: Mapping[str, Any] = {"separator": words.separator, "odd_spaces": odd_spaces}
        self.files: Mapping[str, Any] = {
            _WORDS: list(words.words), _CHARACTERS: list(alphabet.characters), _PICTURES: template_pictures.vectors,
        }  # fmt: skip
        self.boxes_closed = np.array([ALL_BOXES, 0, *(word == words.separator for word in words.words)], np.int64)
        self._steps = decoder_steps(decoder)
        self._compiled_score = compiled(self._score_batch, variables=decoder.variables)

    def normalize(self, start: str) -> str:
        """Strips trailing spaces, which belong to the next word."""
        return self.alphabet.normalize(start).rstrip()

    def start_decoding(self, prompts: Sequence[Prompt]) -> "PictureState":
        """A start text is read as whole words.

        Without a picture, an unknown template gets the mean vector of the known ones.
        """
        begun = [self.words.encode(prompt.start) for prompt in prompts]
        return PictureState(self._steps, self.template_pictures.of_prompts(prompts), self.words.start, begun)

    def text(self, tokens: Sequence[int]) -> str:
        """Begins with a space if its first word has one, to follow a start text."""
        return self.words.decode(tokens)

    def score(self, captions: Captions, first: int, last: int) -> CaptionScores:
        """Score captions given the pictures of their templates.

        To make bits per character comparable with character models, adds the cost of what words do not encode: the
        letters of unknown words and their end, uniformly distributed, and unusual spaces, with probability
        `odd_spaces`.
        """
        texts = list(islice(captions.texts(self.alphabet), first, last))
        encoded = Texts.of(texts, self.words)
        vectors = self.template_pictures.of_templates(captions.templates[first:last])
        likelihood, right = np.zeros(len(texts)), np.zeros(len(texts), np.int64)
        for at in range(0, len(texts), _BATCH):
            count = min(_BATCH, len(texts) - at)
            # Constant batch size, to compile few shapes.
            rows = np.minimum(np.arange(at, at + _BATCH), len(texts) - 1)
            width = -(-int(encoded.lengths[rows].max()) // _WIDTHS) * _WIDTHS
            chances, hits = self._compiled_score(vectors[rows], *encoded.rows(rows, width, self.words.start))
            likelihood[at : at + count] = np.asarray(chances)[:count]
            right[at : at + count] = np.asarray(hits)[:count]
        likelihood -= [self._uncoded_nats(text) for text in texts]
        return CaptionScores(likelihood, encoded.lengths, right, captions.lengths_of(slice(first, last)))

    def _score_batch(self, vectors: Any, inputs: Any, labels: Any, weights: Any) -> tuple[Any, Any]:
        """Return each row's log-likelihood and number of correct argmax predictions; both (rows,)."""
        ops = keras.ops
        state = ops.zeros((vectors.shape[0], self.decoder.output_shape[1][-1]))
        logits = ops.cast(self.decoder([vectors, inputs, state], training=False)[0], "float32")
        logs = ops.take_along_axis(ops.log_softmax(logits), labels[..., None], axis=-1)[..., 0]
        best = ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), labels)
        hits = ops.logical_and(best, ops.not_equal(labels, UNKNOWN))
        return ops.sum(logs * weights, axis=1), ops.sum(ops.cast(hits, "float32") * weights, axis=1)

    def _uncoded_nats(self, text: str) -> float:
        """Return the cost of unknown words and unusual spaces, in nats."""
        letters = sum(count + 1 for count in self.words.unknown_letters(text)) * math.log(len(self.alphabet) + 1)
        return letters + spacing_nats(*unusual_spaces(text, self.separator), self.settings["odd_spaces"])


def prepare(settings: Train, dataset: Dataset, progress: Progress) -> TrainingTask:
    """Build a new model and its training; computes missing picture vectors first."""
    own = settings.show_and_tell
    encoder = open_encoder(settings.pictures.weights, settings.pictures.side, settings.seed)
    pictures = picture_vectors(dataset, encoder, Path(settings.pictures.vectors), progress)
    words = _words(own, dataset)
    shape = own.model_dump(include={"embedding", "units", "dropout"})
    decoder = build_decoder(len(words), size=encoder.size, **shape, seed=settings.seed)
    fit_statistics(decoder.network, pictures.vectors)
    templates = dataset.manifest.templates
    template_pictures, odd = (
        TemplatePictures(encoder, templates, pictures.templates),
        _odd_spaces(dataset, words.separator),
    )
    captioner = ShowAndTellCaptioner(template_pictures, decoder.network, words, dataset.alphabet, templates, odd)

    def rows(captions: Captions, rows: NDArray[np.int32]) -> Rows:
        texts = Texts.of(captions.texts(dataset.alphabet), words)
        return Rows(texts, pictures.vectors, rows, words.start, own.batch, own.longest, settings.seed)

    learn, check = rows(dataset.train, pictures.learn), rows(dataset.validation, pictures.check)
    return TrainingTask(
        captioner=captioner,
        training_model=decoder.training_model,
        validation_model=decoder.training_model,
        batch=lambda step: learn.batch(step, own.noise),
        validation_batch=check.one_pass,
        validation_batches=min(settings.validation_batches, -(-len(dataset.validation) // own.batch)),
        unit="captions",
        units_per_step=own.batch,
        from_logits=True,
        make_optimizer=keras.optimizers.Adam,
        jit_compile=ACCELERATED,
    )


def load(parts: ModelParts) -> ShowAndTellCaptioner:
    """Restore a trained model; see `Kind.load`."""
    networks, settings, files, templates = parts
    template_pictures = TemplatePictures(Encoder(networks[_ENCODER]), templates, files[_PICTURES])
    words, alphabet = Words(tuple(files[_WORDS]), settings["separator"]), Alphabet(tuple(files[_CHARACTERS]))
    return ShowAndTellCaptioner(
        template_pictures, networks[_DECODER], words, alphabet, templates, settings["odd_spaces"]
    )


def _words(own: ShowAndTell, dataset: Dataset) -> Words:
    """Return the dataset's word list, or the words of its captions if that is empty."""
    counted = read_words(dataset.folder)
    if counted:
        return Words.of(counted, own.max_words, dataset.manifest.separator)
    return Words.of_texts(dataset.train.texts(dataset.alphabet), own.max_words, dataset.manifest.separator)


def _odd_spaces(dataset: Dataset, separator: str) -> float:
    """Return the smoothed share of unusual spaces in the first captions; never 0 or 1."""
    unusual = places = 0
    for text in islice(dataset.train.texts(dataset.alphabet), _SPACED_CAPTIONS):
        found, among = unusual_spaces(text, separator)
        unusual, places = unusual + found, places + among
    return (unusual + 1) / (places + 2)


# Batches of up to this many rows are not padded.
_FEW = 8


class DecoderSteps(NamedTuple):
    """The compiled decoder, from `open_step`. show: projects vectors. step: returns logits and the new state."""

    show: Callable[[NDArray[np.float32]], Any]
    step: Callable[..., Any]
    units: int


def decoder_steps(network: Any) -> DecoderSteps:
    """Compile the steps of a decoder."""
    show, step = (compiled(each, variables=network.variables) for each in open_step(network))
    return DecoderSteps(show, step, network.get_layer("memory").units)


class PictureState:
    """See `memeloom.train.contract.DecodingState`; keeps the recurrent state of each row."""

    def __init__(
        self, steps: DecoderSteps, vectors: NDArray[np.float32], start: int, begun: Sequence[Sequence[int]]
    ) -> None:
        """Read the start texts. vectors: of pictures, (rows, size). begun: encoded start texts."""
        self._steps = steps
        self._shown = _of_rows(steps.show, vectors)
        self._state = np.zeros((len(vectors), steps.units), np.float32)
        self._scores = np.zeros((len(vectors), 0), np.float32)
        rows = np.arange(len(vectors))
        self._feed(rows, np.full(len(rows), start))
        for place in range(max(map(len, begun))):
            longer = [row for row, words in enumerate(begun) if place < len(words)]
            self._feed(np.array(longer), np.array([begun[row][place] for row in longer]))

    def log_probs(self) -> NDArray[np.float32]:
        return self._scores

    def append(self, tokens: NDArray[np.int64]) -> None:
        self._feed(np.arange(len(tokens)), tokens)

    def select(self, rows: NDArray[np.int64]) -> None:
        self._shown, self._state, self._scores = self._shown[rows], self._state[rows], self._scores[rows]

    def _feed(self, rows: NDArray[np.int64], words: NDArray[np.int64]) -> None:
        logits, state = _of_rows(self._steps.step, self._shown[rows], words.astype(np.int32), self._state[rows])
        scores = _log_probabilities(logits)
        if len(rows) == len(self._state):
            self._scores, self._state = scores, state
        else:
            self._scores[rows], self._state[rows] = scores, state


def _log_probabilities(logits: NDArray[Any]) -> NDArray[np.float32]:
    """Return log-probabilities, -inf for the unknown word; NumPy is faster than the compiled backends here."""
    scores = logits.astype(np.float32)
    scores[:, UNKNOWN] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return scores


def _of_rows(function: Callable[..., Any], *arrays: NDArray[Any]) -> Any:
    """Call `function` with padded arrays, to compile it for few shapes."""
    rows = len(arrays[0])
    size = rows if rows <= _FEW else 1 << (rows - 1).bit_length()
    filled = np.minimum(np.arange(size), rows - 1)
    found = function(*[array[filled] for array in arrays] if size > rows else arrays)
    # Slice arrays, because slicing a tensor takes TensorFlow as long as a step.
    return keras.tree.map_structure(lambda each: np.array(keras.ops.convert_to_numpy(each)[:rows]), found)
