"""MongoDB for tests: mongod 6.0 as a replica set of one (transactions, change streams), or alone with passwords."""

from typing import Any

import pymongo
from pymongo.errors import PyMongoError

from tests.services.binaries import mongo_binaries
from tests.services.process import Process, answers, free_port, remove_folder, run_folder


class Mongod:
    """A running mongod on 127.0.0.1.

    password: asks for it, of the user `root`. Without one anybody may do everything.
    """

    def __init__(self, password: str | None = None) -> None:
        self._root = mongo_binaries()
        self._folder = run_folder("mongo")
        self._password = password
        self.port = free_port()
        (self._folder / "data").mkdir()
        try:
            self.start()
            self._prepare()
        except BaseException:
            self.stop()
            raise

    def url(self, database: str, user: str = "", password: str = "") -> str:
        """The URL of one of its databases."""
        login = f"{user}:{password}@" if user else ""
        source = "&authSource=admin" if user else ""
        return f"mongodb://{login}127.0.0.1:{self.port}/{database}?directConnection=true{source}"

    def start(self) -> None:
        """Start it (again) on its port and its data, and wait until it answers."""
        command = [
            str(self._root / "bin" / "mongod"), "--bind_ip", "127.0.0.1", "--port", str(self.port), "--nounixsocket",
            "--dbpath", str(self._folder / "data"), "--wiredTigerCacheSizeGB", "0.25",
            "--setParameter", "diagnosticDataCollectionEnabled=false", "--setParameter", "enableTestCommands=1",
        ]  # fmt: skip
        command += ["--auth"] if self._password else ["--replSet", "rs0", "--oplogSize", "64"]
        self.process = Process(command, self._root, self._folder / "mongod.log")
        self.process.wait_until(lambda: answers(self.port))
        if not self._password:
            self.process.wait_until(self._is_primary_or_new)

    def kill(self) -> None:
        """Stop it at once, as a crash would."""
        self.process.kill()

    def stop(self) -> None:
        """End it and forget its data."""
        if hasattr(self, "process"):
            self.process.kill()
        remove_folder(self._folder)

    def _prepare(self) -> None:
        with self._client() as client:
            if self._password:
                client.admin.command("createUser", "root", pwd=self._password, roles=["root"])
                return
            member = {"_id": 0, "host": f"127.0.0.1:{self.port}"}
            client.admin.command("replSetInitiate", {"_id": "rs0", "members": [member]})
        self.process.wait_until(self._is_primary)

    def _client(self) -> pymongo.MongoClient[dict[str, Any]]:
        return pymongo.MongoClient(self.url("admin"), serverSelectionTimeoutMS=2000, socketTimeoutMS=10_000)

    def _is_primary(self) -> bool:
        return bool(self._hello().get("isWritablePrimary"))

    def _is_primary_or_new(self) -> bool:
        hello = self._hello()
        return bool(hello.get("isWritablePrimary")) or ("setName" not in hello and bool(hello.get("ok")))

    def _hello(self) -> dict[str, Any]:
        try:
            with self._client() as client:
                return client.admin.command("hello")
        except PyMongoError:
            return {}
