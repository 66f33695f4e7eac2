"""The model of a folder, exchanged when the folder gets a new one."""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from memeloom.configs.errors import MemeloomError
from memeloom.configs.schema import Config
from memeloom.serve.captions.batch import write_batch
from memeloom.serve.captions.errors import NoModel
from memeloom.serve.captions.remote import RemoteModel, RemoteWriter
from memeloom.serve.captions.request import CaptionRequest, new_template
from memeloom.serve.captions.served import ServedModel, folder_version
from memeloom.serve.captions.service import NextTokens, Result, Writer
from memeloom.train.contract import Prompt
from memeloom.train.model_folder import NotAModel
from memeloom.train.ranking.ranker import open_ranker
from memeloom.train.runtime import open_captioner

log = logging.getLogger(__name__)

# The longest time between two attempts to load a model that cannot be read.
_MOST_BACKOFF = 60.0


@dataclass(frozen=True, slots=True)
class LocalWriter:
    """A model in this process. Its method calls must not overlap."""

    served: ServedModel

    def write(self, requests: Sequence[CaptionRequest], deadline: float) -> list[Result]:  # noqa: ARG002
        """See `Writer`; begun batches are finished."""
        return write_batch(self.served, requests)

    def next_tokens(self, texts: Sequence[str], templates: Sequence[str], deadline: float) -> NextTokens:  # noqa: ARG002
        """See `Writer`. A template that the model has not learned gets what the model writes for unknown ones."""
        model = self.served.model
        prompts = [
            Prompt(self.served.find(name) or new_template(name, name, 1), model.normalize(text))
            for text, name in zip(texts, templates, strict=True)
        ]
        return NextTokens.of(self.served, np.exp(model.start_decoding(prompts).log_probs()))


class WatchedModel:
    """The model in `generate.model`: loaded in the background, and again whenever the folder has a new one.

    A batch that is being written keeps its model; the next one gets the new model. A model that cannot be read, such as
    one that is still being copied, is tried again, less and less often; a model that is in use stays in use.

    Args:
        config: `generate.model`, `serve` and the word lists of `dataset`.
    """

    def __init__(self, config: Config) -> None:
        serve = config.serve
        self._words, self._seconds = config.dataset, serve.reload_seconds
        self._remote = None if serve.model_url is None else RemoteModel(serve.model_url, serve.model_seconds)
        self._folder = Path(config.generate.model)
        self._loaded: Writer | None = None
        # Version and time of the last attempt that failed, and the time until the next one.
        self._failed: str | None = None
        self._failed_at, self._backoff = 0.0, 0.0
        self._why = "the model is being loaded"
        self._stop = threading.Event()
        self.looked = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="model-watch", daemon=True)

    def start(self) -> None:
        """Begin to load and watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching, and close the connections to a model server."""
        self._stop.set()
        if self._remote is not None:
            self._remote.close()

    @property
    def served(self) -> ServedModel:
        """Return the model in use. Raises NoModel, with what to do."""
        return self.writer().served

    def writer(self) -> Writer:
        """Return the writer to use now. Raises NoModel, with what to do."""
        if self._loaded is None:
            raise NoModel(self._why, retry_after=max(1, round(self._seconds)))
        return self._loaded

    def _watch(self) -> None:
        while not self._stop.is_set():
            self._look()
            self.looked.set()
            self._stop.wait(self._seconds)

    def _look(self) -> None:
        """Load the folder's model if it is another one than before."""
        version = None
        try:
            # A link may point to another model at any moment.
            folder = self._folder.resolve()
            version = folder_version(folder)
            if self._is_settled(version):
                return
            model, ranker = open_captioner(folder), open_ranker(folder)
            if folder_version(folder) != version:
                return  # replaced meanwhile: the next look loads it
            served = ServedModel.of(model, version, self._words, ranker)
            self._loaded = LocalWriter(served) if self._remote is None else RemoteWriter(self._remote, served)
            log.info("the model %s is in use", version)
        except Exception as error:  # noqa: BLE001 -- the thread outlives any model
            self._note_failure(version, error)

    def _is_settled(self, version: str) -> bool:
        """Return True if there is nothing to load: the model is in use, or could not be read a moment ago."""
        if self._loaded is not None and self._loaded.served.version == version:
            return True
        return version == self._failed and time.monotonic() < self._failed_at + self._backoff

    def _note_failure(self, version: str | None, error: Exception) -> None:
        if version is None and isinstance(error, NotAModel):
            self._failed = None
            self._why = "there is no model yet; train one with `memeloom train`"
            return
        # The card is read first, and may be there before the files that it lists.
        again = version == self._failed
        self._backoff = min(_MOST_BACKOFF, 2 * self._backoff if again else self._seconds)
        self._failed, self._failed_at = version, time.monotonic()
        self._why = "the model cannot be read; train one with `memeloom train`"
        expected = isinstance(error, MemeloomError | OSError)
        log.warning("the model cannot be loaded: %s", error, exc_info=not expected)
