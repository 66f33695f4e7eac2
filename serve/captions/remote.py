"""A model that another server runs: TensorFlow Serving, or any server of the Open Inference Protocol.

The server gets texts and templates and returns the probabilities of the next character: the endpoint `next_character`
of an exported SavedModel, and this program's own `/v2` routes. Captions are decoded here, as with a model of this
process, so that the same seed writes the same captions.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import httpx2
import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from memeloom.configs.errors import ConfigError
from memeloom.serve.captions.batch import write_batch
from memeloom.serve.captions.errors import CaptionsUnavailable
from memeloom.serve.captions.request import CaptionRequest
from memeloom.serve.captions.service import Result
from memeloom.train.contract import CaptionWriter, KindName, Prompt
from memeloom.train.decoding.draft import WordFilter

# Consecutive failures after which no request is sent for a while.
_FAILURES: Final = 3
_REST_SECONDS: Final = 5.0
_MOST_BYTES: Final = 32 * 2**20
_ENDPOINT: Final = "next_character"


class RemoteModel:
    """The connection to a model server.

    Args:
        url: ``…/v1/models/NAME`` of TensorFlow Serving, or ``…/v2/models/NAME``.
        seconds: deadline of a request.

    Raises:
        ConfigError: another address.
    """

    def __init__(self, url: str, seconds: float) -> None:
        if "/v2/models/" not in url and "/v1/models/" not in url:
            raise ConfigError("serve.model_url: write …/v2/models/NAME, or …/v1/models/NAME of TensorFlow Serving")
        self._open_inference = "/v2/models/" in url
        self._url = f"{url}/infer" if self._open_inference else f"{url}:predict"
        self._client = httpx2.Client(timeout=seconds, follow_redirects=False, trust_env=False)
        self._seconds = seconds
        self._failures, self._rests_until = 0, 0.0

    def next_probabilities(
        self, texts: Sequence[str], templates: Sequence[str], tokens: int, deadline: float
    ) -> NDArray[np.float32]:
        """Return the probabilities of the next token after each text, (texts, tokens).

        Raises:
            CaptionsUnavailable: in one line: no answer in time, an error, or one that cannot be read.
        """
        now = time.monotonic()
        if now < self._rests_until:
            raise CaptionsUnavailable("the model server does not answer", math.ceil(self._rests_until - now))
        try:
            answer = self._ask(self._request(texts, templates), min(self._seconds, deadline - now))
            found = _checked(self._read(answer), (len(texts), tokens))
        except httpx2.HTTPError as error:
            self._note_failure()
            raise CaptionsUnavailable(f"the model server does not answer ({type(error).__name__})") from error
        except (ValueError, KeyError, TypeError, StopIteration, RecursionError) as error:
            self._note_failure()
            raise CaptionsUnavailable("the model server gives an answer that cannot be used") from error
        self._failures = 0
        return found

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _note_failure(self) -> None:
        self._failures += 1
        if self._failures >= _FAILURES:
            self._rests_until = time.monotonic() + _REST_SECONDS

    def _request(self, texts: Sequence[str], templates: Sequence[str]) -> Mapping[str, Any]:
        inputs = {"text": list(texts), "template": list(templates)}
        if not self._open_inference:
            return {"signature_name": _ENDPOINT, "inputs": inputs}
        tensors = [
            {"name": name, "shape": [len(data)], "datatype": "BYTES", "data": data} for name, data in inputs.items()
        ]
        return {"inputs": tensors, "outputs": [{"name": "probabilities"}]}

    def _ask(self, body: Mapping[str, Any], seconds: float) -> Any:
        """Send a request; the answer is bounded in time and size. Raises httpx2.HTTPError, ValueError."""
        end = time.monotonic() + seconds
        content = bytearray()
        with self._client.stream("POST", self._url, json=body, timeout=max(seconds, 0.001)) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                content += part
                if len(content) > _MOST_BYTES:
                    raise ValueError("too large")
                if time.monotonic() > end:
                    raise httpx2.ReadTimeout("too slow")
        return from_json(bytes(content))

    def _read(self, answer: Any) -> NDArray[np.float32]:
        if self._open_inference:
            tensor = next(each for each in answer["outputs"] if each["name"] == "probabilities")
            return np.asarray(tensor["data"], np.float32).reshape(tensor["shape"])
        outputs = answer["outputs"]
        return np.asarray(outputs["probabilities"], np.float32)


def _checked(found: NDArray[np.float32], shape: tuple[int, int]) -> NDArray[np.float32]:
    """Return untrusted probabilities. Raises ValueError."""
    if found.shape != shape or not np.isfinite(found).all() or (found < 0).any():
        raise ValueError(f"no probabilities of the shape {shape}")
    return found


class RemoteWriter:
    """Writes captions with a model server.

    Args:
        remote: the connection.
        local: the same model's folder: its characters, templates and separator.
        version: of the folder.
        word_filter: for `safe` requests.

    Raises:
        ConfigError: a kind of model whose texts cannot be sent.
    """

    def __init__(self, remote: RemoteModel, local: CaptionWriter, version: str, word_filter: WordFilter) -> None:
        if local.unit != "character" or local.uses_pictures:
            raise ConfigError(f"serve.model_url: a model of the kind {local.kind} cannot be run by another server")
        self._remote, self._local, self._version, self._filter = remote, local, version, word_filter

    @property
    def version(self) -> str:
        """Return the version of the folder."""
        return self._version

    def write(self, requests: Sequence[CaptionRequest], deadline: float) -> list[Result]:
        """See `Writer`. Raises CaptionsUnavailable."""
        return write_batch(_RemoteCaptioner(self._remote, self._local, deadline), requests, self._filter)

    def next_probabilities(self, texts: Sequence[str], templates: Sequence[str]) -> Any:
        """See `Writer`. Raises CaptionsUnavailable."""
        tokens = len(self._local.boxes_closed)
        return self._remote.next_probabilities(texts, templates, tokens, time.monotonic() + 60)


class _RemoteCaptioner:
    """See `CaptionWriter`: the local model's facts, another server's probabilities."""

    kind: ClassVar[KindName] = "causal"  # decoding does not depend on it
    compiled: ClassVar[bool] = False
    unit: ClassVar[str] = "character"

    def __init__(self, remote: RemoteModel, local: CaptionWriter, deadline: float) -> None:
        self.remote, self.deadline, self._local = remote, deadline, local
        self.alphabet, self.templates, self.separator = local.alphabet, local.templates, local.separator
        self.uses_pictures, self.boxes_closed = local.uses_pictures, local.boxes_closed
        self.normalize, self.text = local.normalize, local.text

    def start_decoding(self, prompts: Sequence[Prompt]) -> "_RemoteState":
        return _RemoteState(self, [prompt.start for prompt in prompts], [prompt.template.id for prompt in prompts])


class _RemoteState:
    """See `DecodingState`; the server keeps nothing, each step sends the texts so far."""

    def __init__(self, model: _RemoteCaptioner, texts: list[str], templates: list[str]) -> None:
        self._model, self._texts, self._templates = model, texts, templates

    def log_probs(self) -> NDArray[np.float32]:
        model = self._model
        found = model.remote.next_probabilities(self._texts, self._templates, len(model.boxes_closed), model.deadline)
        with np.errstate(divide="ignore"):
            likely: NDArray[np.float32] = np.log(found)
        return likely

    def append(self, tokens: NDArray[np.int64]) -> None:
        self._texts = [text + self._model.text([int(token)]) for text, token in zip(self._texts, tokens, strict=True)]

    def select(self, rows: NDArray[np.int64]) -> None:
        self._texts = [self._texts[row] for row in rows]
        self._templates = [self._templates[row] for row in rows]
