"""MongoDB for tests: mongod 6.0 as a replica set of one (transactions, change streams), or alone with passwords."""

from typing import Any

import pymongo
from pymongo.errors import PyMongoError

from tests.services.binaries import mongo_binaries
from tests.services.process import Server


class Mongod(Server):
    """A running mongod.

    password: asks for it, of the user `root`. Without one anybody may do everything.
    cache_gb: size of its cache.
    """

    def __init__(self, password: str | None = None, cache_gb: float = 0.25) -> None:
        self._password = password
        self._cache_gb = cache_gb
        super().__init__(mongo_binaries())
        if password:
            with self._client() as client:
                client.admin.command("createUser", "root", pwd=password, roles=["root"])

    def command(self) -> list[str]:
        return [
            str(self._root / "bin" / "mongod"), "--bind_ip", "127.0.0.1", "--port", str(self.port), "--nounixsocket",
            "--dbpath", str(self._folder), "--wiredTigerCacheSizeGB", f"{self._cache_gb}",
            "--setParameter", "diagnosticDataCollectionEnabled=false", "--setParameter", "enableTestCommands=1",
            # A killed client's transaction blocks others for so long; 60 s by default.
            "--setParameter", "transactionLifetimeLimitSeconds=5",
            *(["--auth"] if self._password else ["--replSet", "rs0", "--oplogSize", "64"]),
        ]  # fmt: skip

    def start(self) -> None:
        super().start()
        if not self._password:
            self.process.wait_until(self._is_primary)

    def url(self, database: str, user: str = "", password: str = "") -> str:
        """Return the URL of one of its databases."""
        login = f"{user}:{password}@" if user else ""
        source = "&authSource=admin" if user else ""
        return f"mongodb://{login}127.0.0.1:{self.port}/{database}?directConnection=true{source}"

    def _client(self) -> pymongo.MongoClient[dict[str, Any]]:
        return pymongo.MongoClient(self.url("admin"), serverSelectionTimeoutMS=2000, socketTimeoutMS=10_000)

    def _is_primary(self) -> bool:
        """Return True if it takes writes. A new one is made a replica set first."""
        try:
            with self._client() as client:
                hello = client.admin.command("hello")
                if "setName" not in hello:
                    member = {"_id": 0, "host": f"127.0.0.1:{self.port}"}
                    client.admin.command("replSetInitiate", {"_id": "rs0", "members": [member]})
                return bool(hello.get("isWritablePrimary"))
        except PyMongoError:
            return False
