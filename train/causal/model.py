"""Training, decoding and scoring of `causal`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.progress import Progress
from memeloom.configs.schema import Train
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.backend import compiled, keras, padded_rows
from memeloom.train.causal.contexts import UNKNOWN_TEMPLATE, ContextSpec, ContextState, context_rows, table_rows
from memeloom.train.causal.network import Core, Networks, Sight, Table, join
from memeloom.train.causal.packing import CaptionPictures, PackedBatches, fill, template_numbers
from memeloom.train.characters import Alphabet
from memeloom.train.contract import CaptionScores, KindName, ModelParts, Prompt, TrainingTask
from memeloom.train.corpus import Captions, Dataset
from memeloom.train.pictures.encoder import Encoder, open_encoder
from memeloom.train.pictures.vectors import TemplatePictures, picture_vectors

ops = keras.ops
_NETWORK, _ENCODER = "causal", "encoder"
_VOCABULARY, _PICTURES = "vocabulary.json", "pictures.npy"
_BATCH = 128
# Lengths are padded to a multiple of this, to compile the scoring step less often.
_LENGTHS = 32


class CausalCaptioner:
    """Writes a caption character by character.

    template_pictures: for a model that uses pictures. learned: rows of the templates with training captions; the
        network sees all others as `UNKNOWN_TEMPLATE`.
    template_numbers: the network's number of each template, (1 + templates,); the first is for unknown templates.
    """

    kind: ClassVar[KindName] = "causal"
    unit: ClassVar[str] = "character"

    def __init__(
        self,
        networks: Networks,
        spec: ContextSpec,
        templates: tuple[DatasetTemplate, ...],
        template_pictures: TemplatePictures | None,
        learned: Sequence[int],
    ) -> None:
        self.spec, self.alphabet, self.templates = spec, spec.alphabet, templates
        self.separator, self.uses_pictures = spec.end, template_pictures is not None
        self.networks: Mapping[str, Any] = {_NETWORK: networks.network}
        self.settings: Mapping[str, Any] = {
            "separator": spec.end, "bits": spec.bits, "learned": list(learned),
        }  # fmt: skip
        self.files: Mapping[str, Any] = {_VOCABULARY: list(spec.alphabet.characters)}
        if template_pictures is not None:
            self.networks = {**self.networks, _ENCODER: template_pictures.encoder.network}
            self.files = {**self.files, _PICTURES: template_pictures.vectors}
        self.boxes_closed = np.array([character == spec.end for character in spec.alphabet.characters], np.int64)
        self.state_shape = (networks.core.layers, networks.core.units)
        self._network, variables = networks.network, networks.network.variables
        self._template_pictures, self.parts = template_pictures, networks
        # Contexts (rows, 16), state (rows, layers, units) and, with pictures, `seen` to log-probabilities
        # (rows, characters) and the new state.
        self.step = compiled(lambda *now: networks.step(list(now), training=False), variables=variables)
        self._compiled_score = compiled(self._score_batch, variables=variables)
        self._rows = {template.id: row for row, template in enumerate(templates, start=1)}
        rows = np.arange(len(templates))
        self.template_numbers = np.concatenate([[UNKNOWN_TEMPLATE], template_numbers(rows, learned)])

    def normalize(self, start: str) -> str:
        return self.alphabet.normalize(start)

    def start_decoding(self, prompts: Sequence[Prompt]) -> "CausalState":
        templates = self.template_numbers[[self._rows.get(prompt.template.id, 0) for prompt in prompts]]
        seen = None if self._template_pictures is None else self._seen(self._template_pictures.of_prompts(prompts))
        return CausalState(self, templates, [prompt.start for prompt in prompts], seen)

    def seen_templates(self) -> NDArray[np.float32] | None:
        """Return the projected pictures of an unknown and of all known templates, (1 + templates, units), or None."""
        if self._template_pictures is None:
            return None
        return self._seen(self._template_pictures.of_templates(np.arange(-1, len(self._rows))))

    def text(self, tokens: Sequence[int]) -> str:
        return self.alphabet.decode([token + 1 for token in tokens])

    def score(self, captions: Captions, first: int, last: int) -> CaptionScores:
        likelihood, right = np.zeros(last - first), np.zeros(last - first, np.int64)
        lengths = captions.lengths_of(slice(first, last))
        # Captions of similar length need less padding.
        order = first + np.argsort(lengths, kind="stable")
        for at in range(0, len(order), _BATCH):
            chosen = order[at : at + _BATCH]
            templates = template_numbers(captions.templates[chosen], self.settings["learned"])
            length = -(-int(lengths[chosen - first].max()) // _LENGTHS) * _LENGTHS
            batch = fill(captions, chosen, np.arange(len(chosen)), templates, self.spec, (_BATCH, length))
            inputs: tuple[NDArray[Any], ...]
            inputs, labels, weights = batch
            if self._template_pictures is not None:
                shown = self._template_pictures.of_templates(captions.templates[chosen])
                missing = _BATCH - len(shown)
                inputs = (*inputs, np.pad(shown, ((0, missing), (0, 0)))[:, None])
            found, hits = (np.asarray(part)[: len(chosen)] for part in self._compiled_score(labels, weights, *inputs))
            likelihood[chosen - first], right[chosen - first] = found, hits
        return CaptionScores(likelihood, lengths, right, lengths)

    def _seen(self, vectors: NDArray[np.float32]) -> NDArray[np.float32] | None:
        sight = self.parts.sight
        return None if sight is None else np.asarray(ops.convert_to_numpy(sight.shown(vectors)), np.float32)

    def _score_batch(self, labels: Any, weights: Any, *inputs: Any) -> tuple[Any, Any]:
        logits = self._network(list(inputs), training=False)
        likely = ops.log_softmax(ops.cast(logits, "float32"))
        own = ops.take_along_axis(likely, labels[..., None], axis=-1)[..., 0]
        hits = ops.cast(ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), labels), "float32")
        return ops.sum(own * weights, axis=1), ops.sum(hits * weights, axis=1)


def prepare(settings: Train, dataset: Dataset, progress: Progress) -> TrainingTask:
    """Build a new model and its training; batches are rows of packed captions."""
    own = settings.causal
    characters = len(dataset.alphabet)
    spec = ContextSpec(dataset.alphabet, dataset.manifest.separator, own.table_bits)
    table = Table(
        table_rows(own.table_bits, characters),
        own.table_width,
        living=characters + 1,
        rate=own.table_rate / own.learning_rate,
        seed=settings.seed,
        name="table",
    )
    shape = own.model_dump(include={"units", "layers", "hidden", "dropout", "blank"})
    core = Core(characters, **shape, seed=settings.seed, name="core")
    templates = dataset.manifest.templates
    template_pictures, learned, checked, sight, size = None, None, None, None, 0
    if own.pictures:
        encoder = open_encoder(settings.pictures.weights, settings.pictures.side, settings.seed)
        pictures = picture_vectors(dataset, encoder, Path(settings.pictures.vectors), progress)
        template_pictures, size = TemplatePictures(encoder, templates, pictures.templates), encoder.size
        learned, checked = (CaptionPictures(pictures.vectors, rows) for rows in (pictures.learn, pictures.check))
        sight = Sight(own.units, settings.seed, name="sight")
    networks = join(table, core, sight, size)
    if sight is not None and learned is not None:
        sight.fit_statistics(learned.vectors)
    shape = {"rows": own.batch, "length": own.length, "seed": settings.seed}
    known = np.unique(dataset.train.templates)
    learn = PackedBatches(dataset.train, spec, **shape, known=known, unknown=own.unknown, shown=learned)
    check = PackedBatches(dataset.validation, spec, **shape, known=known, unknown=0, shown=checked)
    return TrainingTask(
        captioner=CausalCaptioner(networks, spec, templates, template_pictures, known.tolist()),
        training_model=networks.training_model,
        validation_model=networks.network,
        batch=learn.batch,
        validation_batch=check.one_pass,
        validation_batches=min(settings.validation_batches, check.steps),
        unit="characters",
        units_per_step=learn.characters,
        from_logits=True,
        make_optimizer=lambda rate: keras.optimizers.Adam(rate, beta_2=0.99),
        jit_compile=True,
        table=table,
    )


def load(parts: ModelParts) -> CausalCaptioner:
    """Restore a trained model; see `Kind.load`."""
    networks, settings, files, templates = parts
    table, core = (networks[_NETWORK].get_layer(name) for name in ("table", "core"))
    spec = ContextSpec(Alphabet(tuple(files[_VOCABULARY])), settings["separator"], settings["bits"])
    if _ENCODER not in networks:
        return CausalCaptioner(join(table, core), spec, templates, None, settings["learned"])
    encoder = Encoder(networks[_ENCODER])
    joined = join(table, core, networks[_NETWORK].get_layer("sight"), encoder.size)
    template_pictures = TemplatePictures(encoder, templates, files[_PICTURES])
    return CausalCaptioner(joined, spec, templates, template_pictures, settings["learned"])


class CausalState:
    """See `memeloom.train.contract.DecodingState`: one compiled call per character for all rows.

    templates: the network's number of each row's template. texts: start text of each row.
    seen: projected picture of each row, (rows, units), for a model that uses pictures.
    """

    def __init__(
        self,
        model: CausalCaptioner,
        templates: NDArray[np.int64],
        texts: Sequence[str],
        seen: NDArray[np.float32] | None,
    ) -> None:
        self._step, self._spec, self._seen = model.step, model.spec, seen
        self._contexts = ContextState.begin(templates)
        self._state = np.zeros((len(templates), *model.state_shape), np.float32)
        self._after: NDArray[np.float32] | None = None
        starts = [model.alphabet.encode(text).astype(np.int64) for text in texts]
        for at in range(max(map(len, starts))):
            there = np.array([at < len(start) for start in starts])
            self._read(np.array([start[at] if at < len(start) else 1 for start in starts]), there)

    def log_probs(self) -> NDArray[np.float32]:
        rows = len(self._state)
        padded = padded_rows(rows)
        contexts = context_rows(self._contexts, self._spec.bits, len(self._spec.alphabet))
        seen = [] if self._seen is None else [self._seen[padded]]
        found, after = self._step(contexts[padded], self._state[padded], *seen)
        self._after = np.asarray(after)[:rows]
        return np.asarray(found)[:rows]

    def append(self, tokens: NDArray[np.int64]) -> None:
        self._read(tokens + 1, np.ones(len(tokens), np.bool_))

    def select(self, rows: NDArray[np.int64]) -> None:
        self._contexts, self._state = self._contexts.select(rows), self._state[rows]
        self._after = None if self._after is None else self._after[rows]
        self._seen = None if self._seen is None else self._seen[rows]

    def _read(self, characters: NDArray[np.int64], there: NDArray[np.bool_]) -> None:
        if self._after is None:
            self.log_probs()
        after = self._after if self._after is not None else self._state
        read = self._contexts.read(characters, self._spec.spaces, self._spec.separator)
        self._contexts = self._contexts.replaced(there, read)
        self._state = np.where(there[:, np.newaxis, np.newaxis], after, self._state)
        self._after = None
