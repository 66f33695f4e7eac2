"""The server as processes: start, shutdown, workers that die, models that are replaced."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from memeloom.configs.load import load_config
from memeloom.serve.ready import fill_table
from tests.serve.conftest import Server, StartServer

_PATIENCE = 60


def until(condition: Callable[[], Any]) -> Any:
    """Return the first true value of `condition`."""
    end = time.monotonic() + _PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "memeloom.cli.main", "serve", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)


def children(process: int) -> set[int]:
    """Return the worker processes of a supervisor."""
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return {int(child) for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()}


def test_without_a_model_pictures_are_drawn_and_captions_are_503_with_the_command(
    start_server: StartServer, tmp_path: Path
) -> None:
    with start_server({"generate.model": str(tmp_path / "none")}) as server, server.client() as http:
        assert http.get("/images/doge/such/wow.png").status_code == 200
        answer = http.post("/v1/captions", json={"template": "doge"})
        assert answer.status_code == 503
        assert "memeloom train" in answer.json()["detail"]
        assert int(answer.headers["retry-after"]) >= 1
        assert http.get("/healthz").text == "ok"
        assert http.get("/v2/health/ready").status_code == 503
        assert http.get("/v2/models/causal").status_code == 503
        server.stop()
    assert str(tmp_path) not in answer.text


def test_without_a_model_ready_captions_are_served(
    start_server: StartServer, model_folder: Path, tmp_path: Path
) -> None:
    table = tmp_path / "ready.db"
    fill_table(load_config(options={"generate.model": str(model_folder), "generate.table": str(table)}))
    settings = {"generate.model": str(tmp_path / "none"), "generate.table": str(table)}
    with start_server(settings) as server, server.client() as http:
        found = http.post("/v1/captions", json={"template": "doge", "count": 2}).raise_for_status().json()
        assert (found["model"], found["template"]["name"]) == ("ready", "Doge")
        meme = http.post("/v1/memes", json={"template": "x all the y"}).raise_for_status().json()["memes"][0]
        assert http.get(meme["url"]).status_code == 200
        for body in ({"template": "fry"}, {"template": "doge", "start": "wow"}):  # these need a model
            assert http.post("/v1/captions", json=body).status_code == 503


def test_a_model_that_arrives_or_is_replaced_is_used_without_a_restart(
    start_server: StartServer, model_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    with (
        start_server({"generate.model": str(folder), "serve.reload_seconds": 0.1}) as server,
        server.client() as http,
    ):
        assert http.get("/v2/health/ready").status_code == 503
        shutil.copytree(model_folder, folder)
        first = until(lambda: versions(http))
        # Another card is another model; its bytes are checked like those of the first.
        card = json.loads((folder / "model.json").read_text())
        (folder / "model.json.new").write_text(json.dumps(card, indent=1))
        (folder / "model.json.new").replace(folder / "model.json")
        second = until(lambda: (found := versions(http)) != first and found)
        assert second != first
        assert http.post("/v1/captions", json={"template": "doge"}).json()["model"] == second
        # A damaged model is not used, and the one in use stays.
        (folder / "vocabulary.json").write_text("[]")
        (folder / "counts.npz").write_bytes(b"")  # as `cp` begins; a mapped file would kill the process
        (folder / "model.json").write_text(json.dumps(card))
        with server.client() as other:
            for _ in range(5):
                assert other.post("/v1/captions", json={"template": "doge"}).json()["model"] == second


def versions(http: httpx2.Client) -> str | None:
    answer = http.get("/v2/models/causal")
    return answer.json()["versions"][0] if answer.status_code == 200 else None


def test_a_taken_port_is_one_line(catalog_settings: dict[str, str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        stores = [part for key, value in catalog_settings.items() for part in ("-s", f"{key}={value}")]
        done = run(*stores, "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "address already in use" in done.stderr


def test_a_missing_catalog_and_a_wrong_key_file_are_one_line(catalog_settings: dict[str, str], tmp_path: Path) -> None:
    done = run("-s", f"store.documents=sqlite:///{tmp_path}/none.db")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    keys = tmp_path / "keys"
    keys.write_text("# keys\nalice:123\n")
    done = run("--keys-file", str(keys))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "line 2" in done.stderr


def test_sigterm_finishes_what_is_in_flight(start_server: StartServer, model_folder: Path) -> None:
    """A batch is being answered when the signal arrives; all of its lines come, then the process ends."""
    lines = "\n".join(json.dumps({"template": "doge", "count": 2}) for _ in range(60))
    with start_server({"generate.model": str(model_folder)}) as server:
        server.until_ready()
        headers = {"content-type": "application/jsonl"}
        with server.client() as http, http.stream("POST", "/v1/batch", content=lines, headers=headers) as answer:
            parts = answer.iter_lines()
            received = [next(parts)]
            server.process.send_signal(signal.SIGTERM)
            received += list(parts)
        assert server.process.wait(_PATIENCE) == 0
    assert len(received) == 60
    assert all("problem" not in json.loads(line) for line in received)


def test_sigterm_ends_within_its_bound_whatever_clients_do(start_server: StartServer, tmp_path: Path) -> None:
    with start_server({"generate.model": str(tmp_path), "serve.drain_seconds": 1}) as server:
        with server.client() as http:
            http.get("/healthz")
        with socket.create_connection(("127.0.0.1", server.port)) as stuck:
            stuck.sendall(b"POST /v1/captions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
            with server.client() as http:
                until(lambda: "memeloom_requests_running 2.0" in http.get("/metrics").text)
            started = time.monotonic()
            server.stop()
            assert time.monotonic() - started < 15


def test_a_worker_that_dies_is_replaced_and_none_outlives_the_supervisor(
    start_server: StartServer, tmp_path: Path
) -> None:
    with start_server({"generate.model": str(tmp_path), "serve.workers": 2}) as server:
        with server.client() as http:
            assert http.get("/healthz").status_code == 200
        before = until(lambda: len(found := children(server.process.pid)) == 2 and found)
        # The supervisor waits for an answer of the stopped worker, when that is killed.
        os.kill(min(before), signal.SIGSTOP)
        time.sleep(1)
        os.kill(min(before), signal.SIGKILL)
        killed = time.monotonic()
        after = until(lambda: len(found := children(server.process.pid)) == 2 and found != before and found)
        assert time.monotonic() - killed < 10
        with server.client() as http:
            for _ in range(10):
                assert http.get("/images/doge.png").status_code == 200
            # Either worker answers for both.
            assert "memeloom_requests_total" in http.get("/metrics").text
        server.process.kill()
        server.process.wait()
        until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in after))


def test_metrics_have_declared_routes_only(server: Server) -> None:
    with server.client() as http:
        for number in range(5):
            http.get(f"/nowhere/{number}")
            http.request(f"BREW{number}", "/healthz")
        http.get("/metrics")
        text = http.get("/metrics").text
    assert 'route="none"' in text
    assert "nowhere" not in text
    assert "BREW" not in text
    assert 'memeloom_requests_total{method="GET",route="/metrics",status="200"}' in text
