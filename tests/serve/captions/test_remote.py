"""A model that another server runs writes the captions that it writes in this process."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from memeloom.configs.errors import ConfigError
from memeloom.configs.schema import Config
from memeloom.serve.captions.errors import CaptionsUnavailable, DeadlineExceeded
from memeloom.serve.captions.models import LocalWriter
from memeloom.serve.captions.remote import RemoteModel, RemoteWriter
from memeloom.serve.captions.request import CaptionRequest
from memeloom.serve.captions.served import ServedModel, folder_version
from memeloom.train.runtime import open_captioner
from tests.serve.conftest import Server, StartServer


@pytest.fixture(scope="module")
def local(config: Config, model_folder: Path) -> LocalWriter:
    version = folder_version(model_folder)
    return LocalWriter(ServedModel.of(open_captioner(model_folder), version, config.dataset))


def requests(config: Config) -> list[CaptionRequest]:
    wanted = []
    for number, method in enumerate(("greedy", "sample", "threshold", "beam")):
        settings = config.generate.model_copy(update={"method": method, "captions": 2, "seed": number, "start": "wow"})
        wanted.append(CaptionRequest("8072285", settings, 2))
    return wanted


Connect = Callable[..., RemoteWriter]


@pytest.fixture
def remote_to(local: LocalWriter) -> Iterator[Connect]:
    """A function that connects to the model server at an address."""
    with ExitStack() as stack:

        def connect(url: str, seconds: float = 20) -> RemoteWriter:
            remote = RemoteModel(url, seconds)
            stack.callback(remote.close)
            return RemoteWriter(remote, local.served)

        yield connect


def soon() -> float:
    return time.monotonic() + 60


@contextmanager
def answering(answer: Callable[[str, Any], tuple[int, bytes]]) -> Iterator[str]:
    """Serve POST requests on loopback: path and JSON to status and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, content = answer(self.path, body)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_our_own_server_gives_the_same_captions(
    config: Config, server: Server, local: LocalWriter, remote_to: Connect
) -> None:
    remote = remote_to(f"{server.address}/v2/models/causal")
    here, there = (writer.write(requests(config), soon()) for writer in (local, remote))
    assert all(isinstance(captions, list) for captions in here)
    assert texts(here) == texts(there)


def texts(results: list[Any]) -> list[list[tuple[str, ...]]]:
    return [[caption.texts for caption in captions] for captions in results]


def test_a_server_of_tensorflow_serving_gives_the_same_captions(
    config: Config, local: LocalWriter, remote_to: Connect
) -> None:
    """The server checks the form of TensorFlow Serving's REST API, https://www.tensorflow.org/tfx/serving/api_rest."""

    def predict(path: str, body: Any) -> tuple[int, bytes]:
        assert path == "/v1/models/causal:predict"
        assert set(body) == {"signature_name", "inputs"}
        assert body["signature_name"] == "next_character"
        assert set(body["inputs"]) == {"text", "template"}
        found = local.next_tokens(body["inputs"]["text"], body["inputs"]["template"], soon())
        outputs = {"probabilities": found.probabilities.tolist(), "likeliest": found.likeliest}
        return 200, json.dumps({"outputs": outputs}).encode()

    with answering(predict) as address:
        there = remote_to(f"{address}/v1/models/causal").write(requests(config), soon())
    assert texts(there) == texts(local.write(requests(config), soon()))


def test_a_server_in_front_of_another_answers_with_its_captions(
    start_server: StartServer, server: Server, model_folder: Path
) -> None:
    settings = {"generate.model": str(model_folder), "serve.model_url": f"{server.address}/v2/models/causal"}
    wanted = {"template": "doge", "count": 2, "method": "sample", "seed": 3}
    with start_server(settings) as front, front.client() as http, server.client() as behind:
        front.until_ready()
        captions = [client.post("/v1/captions", json=wanted).raise_for_status().json() for client in (http, behind)]
    boxes = [[caption["boxes"] for caption in each["captions"]] for each in captions]
    assert boxes[0] == boxes[1]


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (500, b"{}"), (404, b"{}"), (200, b"<html>"), (200, b"[]"), (200, b"{}"), (200, b'{"outputs": 3}'),
        (200, b'{"outputs": {"probabilities": [[0.5, 0.5]]}}'), (200, b'{"outputs": {"probabilities": [["x"]]}}'),
        (200, b"[" * 100_000), (302, b""),
    ],
)  # fmt: skip
def test_answers_that_cannot_be_used_are_one_line(
    config: Config, remote_to: Connect, status: int, content: bytes
) -> None:
    with answering(lambda *_: (status, content)) as address, pytest.raises(CaptionsUnavailable) as refused:
        remote_to(f"{address}/v1/models/causal").write(requests(config)[:1], soon())
    assert len(str(refused.value).splitlines()) == 1
    assert address not in str(refused.value)


def test_a_slow_server_costs_its_deadline_only(config: Config, local: LocalWriter, remote_to: Connect) -> None:
    release = threading.Event()

    def wait(*_: object) -> tuple[int, bytes]:
        release.wait(20)
        return 200, b"{}"

    with answering(wait) as address:
        started = time.monotonic()
        with pytest.raises(CaptionsUnavailable):
            remote_to(f"{address}/v1/models/causal", seconds=0.3).write(requests(config)[:1], soon())
        assert time.monotonic() - started < 10
        release.set()


def test_after_failures_in_a_row_no_requests_are_sent_for_a_while(
    config: Config, local: LocalWriter, remote_to: Connect
) -> None:
    asked = []

    def fail(*_: object) -> tuple[int, bytes]:
        asked.append(1)
        return 500, b"{}"

    with answering(fail) as address:
        remote = remote_to(f"{address}/v1/models/causal")
        for _ in range(6):
            with pytest.raises(CaptionsUnavailable) as refused:
                remote.write(requests(config)[:1], soon())
    assert len(asked) == 3
    assert refused.value.retry_after >= 1


def test_a_deadline_of_our_own_is_no_failure_of_the_server(config: Config, remote_to: Connect) -> None:
    """Three of them made all requests 503 for five seconds."""
    release = threading.Event()

    def wait(*_: object) -> tuple[int, bytes]:
        release.wait(20)
        return 500, b"{}"

    with answering(wait) as address:
        remote = remote_to(f"{address}/v1/models/causal")
        for left in (0.2, 0.1, 0.0, -1.0):
            with pytest.raises(DeadlineExceeded):
                remote.write(requests(config)[:1], time.monotonic() + left)
            with pytest.raises(DeadlineExceeded):
                remote.next_tokens(["wow"], ["doge"], time.monotonic() + left)
        release.set()
        with pytest.raises(CaptionsUnavailable, match="HTTPStatusError"):  # it is still asked
            remote.write(requests(config)[:1], soon())


@pytest.mark.parametrize(("version", "fits"), [("1", True), ("0123456789abcdef", False), (None, True)])
def test_captions_of_another_model_than_the_folders_are_refused(
    config: Config, local: LocalWriter, remote_to: Connect, version: str | None, fits: bool
) -> None:
    """Only a server of our own names a version that can be compared."""

    def infer(_: str, body: Any) -> tuple[int, bytes]:
        given, templates = (tensor["data"] for tensor in body["inputs"])
        found = local.next_tokens(given, templates, soon()).probabilities
        tensor = {"name": "probabilities", "shape": list(found.shape), "data": found.ravel().tolist()}
        return 200, json.dumps({"outputs": [tensor], **({"model_version": version} if version else {})}).encode()

    with answering(infer) as address:
        remote = remote_to(f"{address}/v2/models/causal")
        if fits:
            assert texts(remote.write(requests(config)[:1], soon()))
            return
        for _ in range(4):  # an answer is no failure of the server
            with pytest.raises(CaptionsUnavailable, match="runs another model"):
                remote.write(requests(config)[:1], soon())


def test_a_server_that_is_gone_is_one_line(config: Config, local: LocalWriter, remote_to: Connect) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1/models/causal"
        with pytest.raises(CaptionsUnavailable, match="does not answer"):
            remote_to(url).write(requests(config)[:1], soon())


def test_other_addresses_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="/v2/models/NAME"):
        RemoteModel("http://127.0.0.1:8000", 1)
