"""Limits of a server: requests at a time, clients that leave, API keys and their budgets."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from memeloom.serve.http.middleware.admission import BUSY
from memeloom.train.runtime import open_captioner
from tests.serve.captions.test_remote import answering
from tests.serve.conftest import Server, StartServer
from tests.serve.http.test_server import run, until

_PATIENCE = 60
_ROWS = 32


def test_a_client_that_goes_away_costs_nothing(start_server: StartServer, model_folder: Path) -> None:
    """A request whose client has gone is dropped before it is written, if the model has not begun with it."""
    with start_server({"generate.model": str(model_folder), "feed.enabled": False}) as server:
        server.until_ready()
        body = json.dumps({"template": "doge", "count": 7}).encode()
        with server.client() as http:

            def leaves_at_once() -> bool:
                """Return False if the model was free before the client had left: a busy machine may be that slow."""
                before = figure(server, "batch_captions_sum")
                with occupied(server), socket.create_connection(("127.0.0.1", server.port)) as client:
                    head = "POST /v1/captions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                    client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                    until(lambda: "memeloom_requests_running 3.0" in http.get("/metrics").text)
                assert http.post("/v1/captions", json={"template": "doge", "best_of": 1}).status_code == 200
                return figure(server, "batch_captions_sum") - before == 1 + _ROWS

            until(leaves_at_once)


def test_requests_of_a_batch_have_the_time_of_the_batch(start_server: StartServer, model_folder: Path) -> None:
    settings = {"generate.model": str(model_folder), "feed.enabled": False, "serve.deadline_seconds": 0.05}
    with start_server(settings) as server, server.client() as http:
        server.until_ready()
        lines = '{"template": "doge", "count": 4}\n' * 32
        answer = http.post("/v1/batch", content=lines, headers={"content-type": "application/jsonl"})
        found = [json.loads(line) for line in answer.raise_for_status().text.splitlines()]
    assert len(found) == 32
    assert not [each["problem"] for each in found if "problem" in each]


def figure(server: Server, name: str) -> float:
    """One of the server's figures."""
    with server.client() as http:
        found = re.search(rf"^memeloom_{name} (\S+)$", http.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


@contextmanager
def occupied(server: Server) -> Iterator[None]:
    """Give the model a second's work; on return it has begun, on exit it is done."""
    text = {"shape": [_ROWS], "datatype": "BYTES"}
    body = {"inputs": [
        {"name": "text", "data": ["wow such " * 110] * _ROWS, **text},
        {"name": "template", "data": ["doge"] * _ROWS, **text},
    ], "outputs": [{"name": "likeliest"}]}  # fmt: skip

    def work() -> None:
        with server.client() as http:
            http.post("/v2/models/causal/infer", json=body).raise_for_status()

    with ThreadPoolExecutor() as threads:
        # A request's wait is noted when the model begins with it.
        before = figure(server, "wait_seconds_count")
        working = threads.submit(work)
        until(lambda: figure(server, "wait_seconds_count") > before)
        yield
        working.result()


def test_requests_beyond_the_limit_get_503_and_the_others_their_answer(
    start_server: StartServer, model_folder: Path
) -> None:
    """The model is another server's, which answers when the others have been refused."""
    tokens, release = len(open_captioner(model_folder).boxes_closed), threading.Event()

    def predict(_: str, body: Any) -> tuple[int, bytes]:
        assert release.wait(_PATIENCE)
        rows = [[1 / tokens] * tokens for _ in body["inputs"]["text"]]
        return 200, json.dumps({"outputs": {"probabilities": rows}}).encode()

    answers: list[httpx2.Response] = []
    with answering(predict) as address:
        settings = {
            "generate.model": str(model_folder), "serve.model_url": f"{address}/v1/models/causal",
            "serve.model_seconds": _PATIENCE, "serve.deadline_seconds": _PATIENCE, "serve.concurrency": 2,
        }  # fmt: skip
        with start_server(settings) as server:
            server.until_ready()

            def ask() -> None:
                with server.client() as http:
                    answers.append(http.post("/v1/captions", json={"template": "doge"}))

            threads = [threading.Thread(target=ask) for _ in range(12)]
            for thread in threads:
                thread.start()
            until(lambda: len(answers) == 10)
            with socket.create_connection(("127.0.0.1", server.port), timeout=_PATIENCE) as client:
                client.sendall(b"GET /templates/ HTTP/1.1\r\nHost: a\r\n\r\n")
                assert client.recv(65536) == BUSY
            release.set()
            for thread in threads:
                thread.join()
    assert [answer.status_code for answer in answers] == [503] * 10 + [200] * 2
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers[:10])


def test_each_request_of_a_batch_is_charged(start_server: StartServer, tmp_path: Path) -> None:
    settings = {"generate.model": str(tmp_path), "serve.anonymous_budget": "10/hour"}
    headers = {"content-type": "application/jsonl"}
    with start_server(settings) as server, server.client() as http:

        def batch(items: int) -> httpx2.Response:
            answer: httpx2.Response = http.post("/v1/batch", content='{"template": "doge"}\n' * items, headers=headers)
            return answer

        assert batch(11).status_code == 413  # charged as one: no budget allows it
        assert batch(6).status_code == 200
        refused = batch(4)
        assert (refused.status_code, refused.headers["content-type"]) == (429, "application/problem+json")
        assert 1 <= int(refused.headers["retry-after"]) <= 3600
        assert [http.get("/templates/").status_code for _ in range(3)] == [200, 200, 429]


@pytest.mark.parametrize("where", ["file", "environment"])
def test_api_keys_let_in_those_who_have_one_within_its_budget(
    start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    made = run("--new-key", "alice")
    line, key = made.stdout.strip(), made.stderr.split()[-1]
    settings: dict[str, Any] = {"generate.model": str(tmp_path), "serve.budget": "3/hour"}
    if where == "file":
        (tmp_path / "keys").write_text(f"# ours\n{line}\n")
        settings["serve.keys_file"] = str(tmp_path / "keys")
    else:
        monkeypatch.setenv("MEMELOOM_SERVE__KEYS", f"['{line}']")
    with start_server(settings) as server, server.client() as http:
        for headers in ({}, {"x-api-key": "wrong"}, {"authorization": "Basic abc"}):
            refused = http.get("/templates/", headers=headers)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            assert refused.json()["field"] == "Authorization"
        assert http.get("/healthz").status_code == 200
        bearer = {"authorization": f"Bearer {key}"}
        answers = [http.get("/templates/", headers=bearer) for _ in range(2)]
        answers += [http.get("/templates/", headers={"x-api-key": key}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 3600
        text = "".join(answer.text for answer in [*answers, refused])
        assert key not in text
        assert "alice" not in text
