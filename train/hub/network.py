"""Language models of KerasHub: opened from presets, with LoRA, and decoded with their own cache."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from memeloom.configs.errors import MemeloomError
from memeloom.train.backend import ACCELERATED, compiled, keras, muted

ops = keras.ops
TINY = "tiny"
_TINY_TOKENS, _TINY_WINDOW, _DOCUMENT = 2000, 1024, "<|endoftext|>"
# The presets whose weights need half the memory: with LoRA they are frozen, and Keras keeps adapters in float32.
_FROZEN_DTYPE = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}


def _imported() -> Any:
    try:
        # It imports TensorFlow with any backend.
        with muted():
            return import_module("keras_hub")
    except ImportError as error:
        raise MemeloomError(f'the model hub needs KerasHub ({error}): pip install "memeloom[hub]"') from error


# Keras needs KerasHub's classes to load a model.
_HUB = _imported()


def open_preset(preset: str, rank: int) -> Any:
    """Return the `CausalLM` of a KerasHub preset, with its preprocessor, and adapters of rank `rank` if that is not 0.

    Raises:
        MemeloomError: it cannot be downloaded or read, or is no language model with a tokenizer.
    """
    dtype = _FROZEN_DTYPE.get(keras.config.dtype_policy().name) if rank else None
    try:
        model = _HUB.models.CausalLM.from_preset(preset, **({"dtype": dtype} if dtype else {}))
        _check_vocabulary(model)
    except Exception as error:
        # Downloads and formats fail with many kinds of exceptions.
        raise MemeloomError(
            f"train.hub.preset {preset!r} cannot be loaded ({_reason(error, preset)}); name a language model that "
            f"KerasHub can download from here, a folder that holds one, or {TINY}"
        ) from error
    if rank:
        add_adapters(model, rank)
    return model


def _check_vocabulary(model: Any) -> None:
    if model.preprocessor.tokenizer.vocabulary_size() > model.backbone.vocabulary_size:
        raise ValueError("its vocabulary is larger than that of its weights")


def add_adapters(model: Any, rank: int) -> None:
    """Freeze `model` but for new adapters of its attention (LoRA: Hu et al. 2021, https://arxiv.org/abs/2106.09685)."""
    model.backbone.enable_lora(rank)
    for variable in model.trainable_variables:
        # Keras leaves the biases of the adapted layers trainable.
        variable.trainable = "lora" in variable.name


def tiny_model(texts: Iterable[str]) -> Any:
    """Return a new GPT-2 of half a million parameters, from Keras's global seed, with a vocabulary of `texts`."""
    import json

    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=_TINY_TOKENS,
        special_tokens=[_DOCUMENT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learned.train_from_iterator(texts, trainer)
    found = json.loads(learned.to_str())["model"]
    tokenizer = _HUB.models.GPT2Tokenizer(found["vocab"], [" ".join(pair) for pair in found["merges"]])
    backbone = _HUB.models.GPT2Backbone(
        vocabulary_size=len(found["vocab"]), num_layers=2, num_heads=4, hidden_dim=128, intermediate_dim=512,
        dropout=0.0, max_sequence_length=_TINY_WINDOW,
    )  # fmt: skip
    return _HUB.models.GPT2CausalLM(backbone, _HUB.models.GPT2CausalLMPreprocessor(tokenizer))


class _Sampler:
    """Takes the place of KerasHub's sampler: gives out the cache, or what one step with it returns."""

    variables = ()

    def __init__(self) -> None:
        self.given: tuple[Any, Any] | None = None
        self.found: Any = None

    def __call__(self, next: Callable[..., Any], prompt: Any, cache: Any = None, **_: Any) -> Any:  # noqa: A002
        # The step must run in here: what `next` refers to changes when `generate_step` goes on.
        self.found = cache if self.given is None else next(prompt, *self.given)
        return prompt


class Decoder:
    """A model's own cached decoding, step by step, for rows with prompts of one length.

    Every `CausalLM` gives its sampler the filled cache and a function for one step. The inputs are those of its
    preprocessor's `generate_preprocess`.
    """

    def __init__(self, model: Any, writable: Any) -> None:
        self._model, self._writable = model, writable
        self._sampler = _Sampler()
        self._others: Mapping[str, Any] = {}
        # No XLA on a CPU: compiling a step of 124 million parameters took 13 s and made it no faster.
        self._begin = compiled(self._begun, variables=model.variables, xla=ACCELERATED)
        self._step = compiled(self._stepped, variables=model.variables, xla=ACCELERATED)

    def begin(self, inputs: Mapping[str, Any]) -> Any:
        """Return the cache of prompts, nested arrays (rows, …)."""
        self._others = {
            name: (value.shape[1:], str(value.dtype))
            for name, value in inputs.items()
            if name not in ("token_ids", "padding_mask")
        }
        return self._begin(dict(inputs))

    def step(self, tokens: Any, mask: Any, cache: Any, length: Any) -> tuple[Any, Any]:
        """Return log-probabilities of the writable tokens after the first `length`, (rows, writable), and the cache.

        tokens: int32 (rows, width). mask: True for the prompt, (rows, width). length: int32 ().
        """
        found: tuple[Any, Any] = self._step(tokens, mask, cache, length)
        return found

    def _begun(self, inputs: Any) -> Any:
        return self._sampled(inputs, None)

    def _stepped(self, tokens: Any, mask: Any, cache: Any, length: Any) -> tuple[Any, Any]:
        # Pictures and the like are in the cache; the compiler drops what depends on these zeros.
        others = {name: ops.zeros((tokens.shape[0], *shape), dtype) for name, (shape, dtype) in self._others.items()}
        logits, _, cache = self._sampled({"token_ids": tokens, "padding_mask": mask, **others}, (cache, length))
        logits = ops.take(ops.cast(logits, "float32"), self._writable, axis=-1)
        return ops.log_softmax(logits, axis=-1), cache

    def _sampled(self, inputs: Any, given: tuple[Any, Any] | None) -> Any:
        self._sampler.given, self._model.sampler = given, self._sampler
        self._model.generate_step(inputs, None)
        return self._sampler.found


def _reason(error: Exception, preset: str) -> str:
    if isinstance(error, OSError) and not Path(preset).exists():
        return f"the download failed: {type(error).__name__}"
    return (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0].rstrip(".:")
