"""The kinds of models by name; each is imported only where it is used."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from memeloom.train.contract import Kind, KindName

_MODULES: Final[Mapping[KindName, str]] = MappingProxyType({
    "causal": "memeloom.train.causal.model",
    "convnet": "memeloom.train.convnet.model",
    "show-and-tell": "memeloom.train.show_and_tell.model",
    "gpt2": "memeloom.train.gpt2.model",
})  # fmt: skip


def open_kind(name: KindName) -> Kind:
    """The kind called `name`. Raises KeyError."""
    kind: Kind = import_module(_MODULES[name]).KIND
    return kind
