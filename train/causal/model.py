"""Training, decoding and scoring of `causal`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from memeloom.configs.progress import Progress
from memeloom.configs.schema import Train
from memeloom.dataset.manifest import DatasetTemplate
from memeloom.train.backend import compiled, keras, padded_rows
from memeloom.train.causal.contexts import ContextSpec, table_rows
from memeloom.train.causal.decoding import (
    ENCODER,
    PICTURES,
    VOCABULARY,
    CausalWriter,
    PictureSight,
    Step,
)
from memeloom.train.causal.network import Core, Networks, Sight, Table, join
from memeloom.train.causal.packing import CaptionPictures, PackedBatches, fill
from memeloom.train.characters import Alphabet
from memeloom.train.contract import CaptionScores, ModelParts, TrainingTask
from memeloom.train.corpus import Captions, Dataset, template_numbers
from memeloom.train.pictures.encoder import Encoder, open_encoder
from memeloom.train.pictures.templates import TemplatePictures
from memeloom.train.pictures.vectors import picture_vectors

ops = keras.ops
_NETWORK = "causal"
_BATCH = 128
# Lengths are padded to a multiple of this, to compile the scoring step less often.
_LENGTHS = 32


class CausalCaptioner(CausalWriter):
    """Writes a caption character by character, on Keras.

    template_pictures: for a model that uses pictures. learned: rows of the templates with training captions.
    """

    compiled: ClassVar[bool] = True

    def __init__(
        self,
        networks: Networks,
        spec: ContextSpec,
        templates: tuple[DatasetTemplate, ...],
        template_pictures: TemplatePictures[Encoder] | None,
        learned: Sequence[int],
    ) -> None:
        self._network, variables = networks.network, networks.network.variables
        # Contexts (rows, 16), state (rows, layers, units) and, with pictures, `seen` to log-probabilities
        # (rows, characters) and the new state.
        step = compiled(lambda *now: networks.step(list(now), training=False), variables=variables)
        super().__init__(
            step_of_padded_rows(step), (networks.core.layers, networks.core.units), spec, templates, learned,
            _sight(networks, template_pictures),
        )  # fmt: skip
        self.networks: Mapping[str, Any] = {_NETWORK: networks.network}
        self.settings: Mapping[str, Any] = {
            "separator": spec.end, "bits": spec.bits, "learned": list(learned),
        }  # fmt: skip
        self.files: Mapping[str, Any] = {VOCABULARY: list(spec.alphabet.characters)}
        if template_pictures is not None:
            self.networks = {**self.networks, ENCODER: template_pictures.encoder.network}
            self.files = {**self.files, PICTURES: template_pictures.vectors}
        self._template_pictures, self.parts = template_pictures, networks
        self._compiled_score = compiled(self._score_batch, variables=variables)

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

    def _score_batch(self, labels: Any, weights: Any, *inputs: Any) -> tuple[Any, Any]:
        logits = self._network(list(inputs), training=False)
        likely = ops.log_softmax(ops.cast(logits, "float32"))
        own = ops.take_along_axis(likely, labels[..., None], axis=-1)[..., 0]
        hits = ops.cast(ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), labels), "float32")
        return ops.sum(own * weights, axis=1), ops.sum(hits * weights, axis=1)


def step_of_padded_rows(step: Callable[..., Any]) -> Step:
    """Return `step` for any number of rows, padded to compile it for few shapes."""

    def padded(
        contexts: NDArray[np.int32], state: NDArray[np.float32], seen: NDArray[np.float32] | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        rows = len(state)
        places = padded_rows(rows)
        found, after = step(contexts[places], state[places], *([] if seen is None else [seen[places]]))
        return np.asarray(found)[:rows], np.asarray(after)[:rows]

    return padded


def _sight(networks: Networks, template_pictures: TemplatePictures[Encoder] | None) -> PictureSight | None:
    sight = networks.sight
    if sight is None or template_pictures is None:
        return None

    def project(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(ops.convert_to_numpy(sight.shown(vectors)), np.float32)

    return PictureSight(template_pictures, project)


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
        steps_per_pass=learn.steps,
        from_logits=True,
        make_optimizer=lambda rate: keras.optimizers.Adam(rate, beta_2=0.99),
        jit_compile=True,
        table=table,
    )


def load(parts: ModelParts) -> CausalCaptioner:
    """Restore a trained model; see `Kind.load`."""
    networks, settings, files, templates = parts
    table, core = (networks[_NETWORK].get_layer(name) for name in ("table", "core"))
    spec = ContextSpec(Alphabet(tuple(files[VOCABULARY])), settings["separator"], settings["bits"])
    if ENCODER not in networks:
        return CausalCaptioner(join(table, core), spec, templates, None, settings["learned"])
    encoder = Encoder(networks[ENCODER])
    joined = join(table, core, networks[_NETWORK].get_layer("sight"), encoder.size)
    template_pictures = TemplatePictures(encoder, templates, files[PICTURES])
    return CausalCaptioner(joined, spec, templates, template_pictures, settings["learned"])
