"""A model that another server runs: TensorFlow Serving, or any server of the Open Inference Protocol.

The server gets texts and templates and returns the probabilities of the next character: the endpoint `next_character`
of a conv net's SavedModel, and this program's own `/v2` routes. Captions are decoded here, as with a model of this
process, so that the same seed writes the same captions.
"""

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import httpx2
import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from memeloom.configs.errors import ConfigError
from memeloom.configs.schema_models import KindName
from memeloom.serve.captions.batch import write_batch
from memeloom.serve.captions.errors import CaptionsUnavailable, DeadlineExceeded
from memeloom.serve.captions.request import CaptionRequest
from memeloom.serve.captions.served import ServedModel
from memeloom.serve.captions.service import NextTokens, Result
from memeloom.train.contract import CaptionWriter, Prompt

# Consecutive failures after which no request is sent for a while.
_FAILURES: Final = 3
_REST_SECONDS: Final = 5.0
_MOST_BYTES: Final = 32 * 2**20
_ENDPOINT: Final = "next_character"
# What a version of a model looks like on our own server; others count 1, 2, 3.
_VERSION: Final = re.compile("[0-9a-f]{16}")


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
        self, texts: Sequence[str], templates: Sequence[str], served: ServedModel, deadline: float
    ) -> NDArray[np.float32]:
        """Return the probabilities of the next token after each text, (texts, tokens).

        Args:
            texts: so far.
            templates: id, slug or name of the template of each text.
            served: the model that the server is to run.
            deadline: of `time.monotonic`; a server that has not answered by then has not failed.

        Raises:
            CaptionsUnavailable: in one line: no answer in time, an error, one that cannot be read, or of another model.
        """
        now = time.monotonic()
        if now < self._rests_until:
            raise CaptionsUnavailable("the model server does not answer", math.ceil(self._rests_until - now))
        seconds = min(self._seconds, deadline - now)
        if seconds <= 0:
            raise DeadlineExceeded("the captions were not written in time")
        try:
            answer = self._ask(self._request(texts, templates), seconds)
            found = _checked(self._read(answer), (len(texts), len(served.model.boxes_closed)))
            version = str(answer.get("model_version", ""))
        except httpx2.HTTPError as error:
            if isinstance(error, httpx2.TimeoutException) and seconds < self._seconds:
                raise DeadlineExceeded("the captions were not written in time") from error
            self._note_failure()
            raise CaptionsUnavailable(f"the model server does not answer ({type(error).__name__})") from error
        except (ValueError, KeyError, TypeError, StopIteration, RecursionError) as error:
            self._note_failure()
            raise CaptionsUnavailable("the model server gives an answer that cannot be used") from error
        self._failures = 0
        if _VERSION.fullmatch(version) and version != served.version:
            raise CaptionsUnavailable("the model server runs another model than the one in generate.model")
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
        with self._client.stream("POST", self._url, json=body, timeout=seconds) as answer:
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
        served: the same model's folder: its characters, templates and separator.

    Raises:
        ConfigError: a kind of model whose texts cannot be sent.
    """

    def __init__(self, remote: RemoteModel, served: ServedModel) -> None:
        local = served.model
        if local.unit != "character" or local.uses_pictures:
            raise ConfigError(f"serve.model_url: a model of the kind {local.kind} cannot be run by another server")
        self._remote, self.served = remote, served

    def write(self, requests: Sequence[CaptionRequest], deadline: float) -> list[Result]:
        """See `Writer`. Raises CaptionsUnavailable."""
        remote: CaptionWriter = _RemoteCaptioner(self._remote, self.served, deadline)
        return write_batch(replace(self.served, model=remote), requests)

    def next_tokens(self, texts: Sequence[str], templates: Sequence[str], deadline: float) -> NextTokens:
        """See `Writer`. Raises CaptionsUnavailable."""
        return NextTokens.of(self.served, self._remote.next_probabilities(texts, templates, self.served, deadline))


class _RemoteCaptioner:
    """See `CaptionWriter`: the local model's facts, another server's probabilities."""

    kind: ClassVar[KindName] = "causal"  # decoding does not depend on it
    compiled: ClassVar[bool] = False
    unit: ClassVar[str] = "character"

    def __init__(self, remote: RemoteModel, served: ServedModel, deadline: float) -> None:
        local = served.model
        self.remote, self.deadline, self.served = remote, deadline, served
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
        found = model.remote.next_probabilities(self._texts, self._templates, model.served, model.deadline)
        with np.errstate(divide="ignore"):
            likely: NDArray[np.float32] = np.log(found)
        return likely

    def append(self, tokens: NDArray[np.int64]) -> None:
        self._texts = [text + self._model.text([int(token)]) for text, token in zip(self._texts, tokens, strict=True)]

    def select(self, rows: NDArray[np.int64]) -> None:
        self._texts = [self._texts[row] for row in rows]
        self._templates = [self._templates[row] for row in rows]
