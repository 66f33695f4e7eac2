"""GPT-2 from KerasHub: a preset by name or from a folder, or a small new one."""

from importlib import import_module
from pathlib import Path
from typing import Any

from memeloom.configs.errors import MemeloomError
from memeloom.train.backend import muted

TINY = "tiny"
TINY_TOKENS = 2000


def _imported() -> Any:
    try:
        # It imports TensorFlow, even where the backend is another.
        with muted():
            return import_module("keras_hub")
    except ImportError as error:
        raise MemeloomError(f'the model gpt2 needs KerasHub ({error}): pip install "memeloom[hub]"') from error


# Where the model is loaded from a file, Keras must know KerasHub's classes.
_HUB = _imported()


def new_network(tokens: int, *, window: int, dropout: float) -> Any:
    """A GPT-2 of half a million parameters, with random weights from Keras's global seed."""
    backbone = _HUB.models.GPT2Backbone(
        vocabulary_size=tokens,
        num_layers=2,
        num_heads=4,
        hidden_dim=128,
        intermediate_dim=512,
        dropout=dropout,
        max_sequence_length=window,
    )
    return _HUB.models.GPT2CausalLM(backbone)


def preset_network(preset: str, *, window: int, dropout: float) -> tuple[Any, list[str], list[str]]:
    """The GPT-2 called `preset`, which KerasHub downloads, or in the folder `preset`; its vocabulary and merges.

    Raises:
        MemeloomError: there is none, it cannot be downloaded or read, or it reads fewer tokens than `window`.
    """
    try:
        backbone = _HUB.models.GPT2Backbone.from_preset(preset, dropout=dropout)
        tokenizer = _HUB.models.GPT2Tokenizer.from_preset(preset)
    except Exception as error:
        # Downloads, files and formats fail in a dozen ways, each with an exception of its own.
        raise MemeloomError(
            f"train.gpt2.preset {preset!r} cannot be loaded ({_reason(error, preset)}); name a GPT-2 that KerasHub can "
            f"download from here, a folder that holds one, or {TINY}"
        ) from error
    most = backbone.max_sequence_length
    if window > most:
        raise MemeloomError(f"train.gpt2.sequence_length is {window}, but {preset!r} reads at most {most} tokens")
    vocabulary = sorted(tokenizer.vocabulary, key=tokenizer.vocabulary.__getitem__)
    merges = [merge for merge in tokenizer.merges if not merge.startswith("#version")]
    if len(vocabulary) != backbone.vocabulary_size:
        raise MemeloomError(f"train.gpt2.preset {preset!r}: its vocabulary is not the one of its weights")
    return _HUB.models.GPT2CausalLM(backbone), vocabulary, merges


def _reason(error: Exception, preset: str) -> str:
    """Why a preset cannot be loaded, in a few words."""
    if isinstance(error, OSError) and not Path(preset).exists():
        return f"the download failed: {type(error).__name__}"
    return (str(error).strip() or type(error).__name__).splitlines()[0].split(". ")[0].rstrip(".")
