"""The model of a folder, exchanged when the folder gets a new one."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Config, Serve
from memeloom.serve.captions.batch import write_batch
from memeloom.serve.captions.errors import NoModel
from memeloom.serve.captions.remote import RemoteModel, RemoteWriter
from memeloom.serve.captions.request import CaptionRequest, new_template
from memeloom.serve.captions.service import Result, Writer
from memeloom.train.contract import CaptionWriter, Prompt
from memeloom.train.decoding.draft import WordFilter
from memeloom.train.generate import templates_by_text
from memeloom.train.model_folder import NotAModel
from memeloom.train.runtime import model_version, open_captioner

log = logging.getLogger(__name__)

# Digits of the sha256 that tell versions apart.
_VERSION_DIGITS = 16


@dataclass(frozen=True, slots=True)
class LocalWriter:
    """A model in this process. Its method calls must not overlap."""

    model: CaptionWriter
    version: str
    word_filter: WordFilter

    def write(self, requests: Sequence[CaptionRequest], deadline: float) -> list[Result]:  # noqa: ARG002
        """See `Writer`; begun batches are finished."""
        return write_batch(self.model, requests, self.word_filter)

    def next_probabilities(self, texts: Sequence[str], templates: Sequence[str]) -> Any:
        """See `Writer`. A template that the model has not learned gets what the model writes for unknown ones."""
        known = templates_by_text(self.model.templates, str.casefold)
        prompts = [
            Prompt(known.get(name.casefold()) or new_template(name, name, 1), self.model.normalize(text))
            for text, name in zip(texts, templates, strict=True)
        ]
        return np.exp(self.model.start_decoding(prompts).log_probs())


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A writer, and the facts about its model that requests need before they are written."""

    writer: Writer
    model: CaptionWriter
    version: str
    known_ids: frozenset[str]


class WatchedModel:
    """The model in `generate.model`: loaded in the background, and again whenever the folder has a new one.

    A batch that is being written keeps its model; the next one gets the new model. A folder without a model, or with
    a damaged one, is looked at again until it has one; a model that is in use stays in use.

    Args:
        config: `generate.model`, `serve` and the word lists of `dataset`.
    """

    def __init__(
        self,
        config: Config,
    ) -> None:
        self._config, self._writer_of = config, _writers(config.serve)
        self._folder = Path(config.generate.model)
        self._loaded: LoadedModel | None = None
        self._tried: str | None = None
        self._why = "the model is being loaded"
        self._stop = threading.Event()
        self.looked = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="model-watch", daemon=True)

    def start(self) -> None:
        """Begin to load and watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()

    @property
    def loaded(self) -> LoadedModel:
        """Return the model in use. Raises NoModel, with what to do."""
        if self._loaded is None:
            raise NoModel(self._why, retry_after=max(1, round(self._config.serve.reload_seconds)))
        return self._loaded

    def writer(self) -> Writer:
        """Return the writer to use now. Raises NoModel."""
        return self.loaded.writer

    def _watch(self) -> None:
        while not self._stop.is_set():
            self._look()
            self.looked.set()
            self._stop.wait(self._config.serve.reload_seconds)

    def _look(self) -> None:
        """Load the folder's model if it is another one than before."""
        try:
            version = _version(self._folder)
            if version is None:
                self._tried = None
                self._why = "there is no model yet; train one with `memeloom train`"
                return
            if version == self._tried:
                return
            self._tried = version
            model = open_captioner(self._folder)
            if _version(self._folder) != version:  # replaced meanwhile: the next look loads it
                self._tried = None
                return
            writer = self._writer_of(model, version, WordFilter.of(self._config.dataset, model))
            self._loaded = LoadedModel(writer, model, version, frozenset(template.id for template in model.templates))
            log.info("the model %s is in use", version)
        except (MemeloomError, OSError) as error:
            self._why = "the model cannot be read; train one with `memeloom train`"
            log.warning("the model cannot be loaded: %s", error)


def _writers(serve: Serve) -> Callable[[CaptionWriter, str, WordFilter], Writer]:
    """Return what makes a writer of a model that was loaded. Raises ConfigError."""
    if serve.model_url is None:
        return LocalWriter
    return partial(RemoteWriter, RemoteModel(serve.model_url, serve.model_seconds))


def _version(folder: Path) -> str | None:
    """Return the version of the model in `folder`; None if there is none at the moment."""
    try:
        return model_version(folder)[:_VERSION_DIGITS]
    except NotAModel:
        return None
