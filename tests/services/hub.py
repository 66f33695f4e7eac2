"""A hub of datasets on loopback: the requests of `huggingface_hub` that a push makes, over plain LFS.

It keeps repositories in memory, knows contents by their hash, and takes one token. `before_upload` of `Hub` may hold or
break an upload.
"""

import base64
import hashlib
import http.server
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

# Names of files that the hub wants as large ones.
_LARGE = (".parquet", ".tfrecord", ".gz", ".tar", ".png", ".jpg", ".zst")


@dataclass
class Repository:
    """The files of a repository by name, large ones (True) or not, and the titles of its commits."""

    private: bool
    files: dict[str, tuple[bytes, bool]] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)


@dataclass
class Hub:
    """What the hub holds and was asked for."""

    url: str = ""
    token: str = "hf_right"
    repositories: dict[str, Repository] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    uploads: Counter[str] = field(default_factory=Counter)
    asked: list[tuple[str, str]] = field(default_factory=list)
    before_upload: Callable[[str], None] = lambda oid: None
    fault: int = 0

    def files(self, repository: str) -> dict[str, bytes]:
        """The files of a repository."""
        return {name: data for name, (data, _) in self.repositories[repository].files.items()}


class _Refused(Exception):
    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        self.hub.asked.append((self.command, path))
        try:
            self._send(200, self._result(path.strip("/").split("/"), body))
        except _Refused as refused:
            self._send(refused.status, {"error": refused.message}, refused)

    def _send(self, status: int, value: Any, refused: _Refused | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if refused:
            self.send_header("X-Error-Code", refused.code)
            self.send_header("X-Error-Message", refused.message)
        self.end_headers()
        self.wfile.write(data)

    def _result(self, path: list[str], body: bytes) -> Any:
        if self.hub.fault:
            raise _Refused(self.hub.fault, message="out of order")
        match path:
            case ["upload", oid]:
                return self._upload(oid, body)
            case ["api", "validate-yaml"]:
                return {"errors": [], "warnings": []}
        given = self.headers.get("Authorization")
        if given is not None and given != f"Bearer {self.hub.token}":
            raise _Refused(401, message="Invalid credentials in Authorization header")
        if path[-2:] == ["tree", "main"]:
            return [_entry(*item) for item in sorted(self._repository("/".join(path[2:4])).files.items())]
        if given is None:
            raise _Refused(401, message="Invalid username or password.")
        return self._change(path, body)

    def _change(self, path: list[str], body: bytes) -> Any:
        match path:
            case ["api", "repos", "create"]:
                return self._create(json.loads(body))
            case ["api", "datasets", owner, name, "preupload", "main"]:
                return self._modes(self._repository(f"{owner}/{name}"), json.loads(body))
            case ["datasets", owner, git, "info", "lfs", "objects", "batch"]:
                self._repository(f"{owner}/{git.removesuffix('.git')}")
                return {"objects": [self._object(each) for each in json.loads(body)["objects"]]}
            case ["api", "datasets", owner, name, "commit", "main"]:
                return self._commit(f"{owner}/{name}", body)
        raise _Refused(404, message=f"no such address: {self.path}")

    def _repository(self, name: str) -> Repository:
        if name not in self.hub.repositories:
            raise _Refused(404, "RepoNotFound", "Repository not found")
        return self.hub.repositories[name]

    def _create(self, wanted: dict[str, Any]) -> Any:
        name = f"{wanted['organization']}/{wanted['name']}"
        assert wanted["type"] == "dataset"
        if name in self.hub.repositories:
            raise _Refused(409, message="You already created this dataset repo")
        self.hub.repositories[name] = Repository(wanted["visibility"] == "private")
        self.hub.repositories[name].files[".gitattributes"] = (b"*.parquet filter=lfs\n", False)
        return {"url": f"{self.hub.url}/datasets/{name}", "name": name, "id": "1"}

    def _modes(self, repository: Repository, wanted: dict[str, Any]) -> Any:
        return {
            "files": [
                {
                    "path": each["path"],
                    "uploadMode": "lfs" if each["path"].endswith(_LARGE) else "regular",
                    "shouldIgnore": False,
                    "oid": _oid(repository.files.get(each["path"])),
                }
                for each in wanted["files"]
            ]
        }

    def _object(self, wanted: dict[str, Any]) -> Any:
        facts = {"oid": wanted["oid"], "size": wanted["size"]}
        if wanted["oid"] in self.hub.large:
            return facts
        return facts | {"actions": {"upload": {"href": f"{self.hub.url}/upload/{wanted['oid']}"}}}

    def _upload(self, oid: str, body: bytes) -> Any:
        self.hub.before_upload(oid)
        assert hashlib.sha256(body).hexdigest() == oid
        self.hub.uploads[oid] += 1
        self.hub.large[oid] = body
        return {}

    def _commit(self, name: str, body: bytes) -> Any:
        repository = self._repository(name)
        header, *operations = map(json.loads, body.splitlines())
        files = dict(repository.files)
        for operation in operations:
            value = operation["value"]
            match operation["key"]:
                case "file":
                    files[value["path"]] = (base64.b64decode(value["content"]), False)
                case "lfsFile":
                    if value["oid"] not in self.hub.large:
                        raise _Refused(400, message=f"no content for {value['path']}")
                    files[value["path"]] = (self.hub.large[value["oid"]], True)
                case "deletedFile":
                    del files[value["path"]]
        repository.files = files
        repository.commits.append(header["value"]["summary"])
        commit = hashlib.sha1(body, usedforsecurity=False).hexdigest()
        return {"commitUrl": f"{self.hub.url}/datasets/{name}/commit/{commit}", "commitOid": commit}

    def handle(self) -> None:
        with suppress(ConnectionError):  # a push that was killed does not wait for its answers
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- its name in the base class
        pass


def _oid(found: tuple[bytes, bool] | None) -> str | None:
    if found is None:
        return None
    return hashlib.sha256(found[0]).hexdigest() if found[1] else _blob_id(found[0])


def _entry(name: str, found: tuple[bytes, bool]) -> dict[str, Any]:
    data, large = found
    entry = {"type": "file", "path": name, "size": len(data), "oid": _blob_id(data)}
    if large:
        entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
    return entry


@contextmanager
def serving_hub() -> Iterator[Hub]:
    """A hub at its own port of loopback."""
    hub = Hub()
    methods = dict.fromkeys(("do_GET", "do_POST", "do_PUT"), _Handler.answer)
    handler = type("Handler", (_Handler,), {"hub": hub, **methods})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
