"""S3 for tests: Ceph's RADOS gateway over a cluster of one monitor and one object daemon."""

import sysconfig
import urllib.request
import uuid
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import obstore
from obstore.store import S3Store

from tests.services.binaries import ceph_binaries
from tests.services.process import Process, answers, free_port, remove_folder, run, run_folder

_CONFIG = """
[global]
fsid = {fsid}
mon_host = v2:127.0.0.1:{monitor_port}
keyring = {folder}/keyring
run_dir = {folder}
admin_socket = {folder}/$name.$pid.asok
pid_file =
log_file = /dev/null
mon_cluster_log_file = /dev/null
crash_dir = {folder}
plugin_dir = {libraries}/ceph
erasure_code_dir = {libraries}/ceph/erasure-code
osd_class_dir = {libraries}/rados-classes
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_msgr1 = false
auth_allow_insecure_global_id_reclaim = false
mon_allow_pool_size_one = true
paxos_propose_interval = 0.02
paxos_min_wait = 0.01
mon_data_avail_crit = 1
mon_data_avail_warn = 2
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = 4294967296
debug_osd = 0
debug_rgw = 0
debug_rocksdb = 0
[mon.a]
mon_data = {folder}/mon
[osd.0]
osd_data = {folder}/osd
keyring = {folder}/osd/keyring
[client.admin]
rgw_data = {folder}/rgw
"""


@dataclass(frozen=True)
class S3Access:
    """Where the gateway is, and who may use it. `config` starts another gateway on the same data."""

    endpoint: str
    access_key: str
    secret_key: str
    config: str


class Cluster:
    """A running cluster with one gateway."""

    def __init__(self) -> None:
        self._root = ceph_binaries()
        self._folder = run_folder("s3")
        self._processes: list[Process] = []
        try:
            self.access = self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the daemons, gateway first, and forget their data."""
        for process in reversed(self._processes):
            process.kill()
        remove_folder(self._folder)

    def _start(self) -> S3Access:
        folder, fsid, monitor_port = self._folder, str(uuid.uuid4()), free_port()
        for name in ("mon", "osd", "rgw"):
            (folder / name).mkdir()
        config = folder / "ceph.conf"
        config.write_text(_CONFIG.format(
            folder=folder, fsid=fsid, monitor_port=monitor_port,
            libraries=self._root / "usr" / "lib" / str(sysconfig.get_config_var("MULTIARCH")),
        ))  # fmt: skip
        self._make_monitor(fsid, monitor_port)
        self._daemon("ceph-mon", "-i", "a")
        self._tool("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", str(uuid.uuid4()))
        self._daemon("ceph-osd", "-i", "0")
        gateway = Gateway(str(config))
        self._processes.append(gateway.process)
        access = S3Access(gateway.endpoint, "TESTACCESSKEY", "test-secret-key", str(config))
        self._tool("radosgw-admin", "user", "create", "--uid=test", "--display-name=test", "--max-buckets=0",
                   f"--access-key={access.access_key}", f"--secret-key={access.secret_key}")  # fmt: skip
        return access

    def _make_monitor(self, fsid: str, port: int) -> None:
        """Create the monitor's data; its first maps already know the one object daemon and its key."""
        folder = self._folder
        keyring, osd_keyring = str(folder / "keyring"), str(folder / "osd" / "keyring")
        key = self._tool("ceph-authtool", "--gen-print-key").strip()
        self._tool("ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        self._tool("ceph-authtool", keyring, "--gen-key", "-n", "client.admin",
                   "--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *")  # fmt: skip
        self._tool("ceph-authtool", keyring, "-n", "osd.0", "--add-key", key,
                   "--cap", "mon", "allow profile osd", "--cap", "osd", "allow *")  # fmt: skip
        self._tool("ceph-authtool", "--create-keyring", osd_keyring, "-n", "osd.0", "--add-key", key)
        monitors, devices = str(folder / "monmap"), str(folder / "osdmap")
        self._tool("monmaptool", "--create", "--addv", "a", f"[v2:127.0.0.1:{port}]", "--fsid", fsid, monitors)
        self._tool("osdmaptool", "--createsimple", "1", devices)
        self._tool("ceph-mon", "--mkfs", "-i", "a", "--monmap", monitors, "--osdmap", devices, "--keyring", keyring)

    def _daemon(self, program: str, *arguments: str) -> None:
        command = [program, *arguments, "-f"]
        self._processes.append(Process(command, self._root, self._folder / f"{program}.out", self._settings()))

    def _tool(self, *command: str) -> str:
        return run(list(command), self._root, self._settings())

    def _settings(self) -> dict[str, str]:
        return {"CEPH_CONF": str(self._folder / "ceph.conf")}


class Gateway:
    """One HTTP front end of the cluster that `config` describes; killing it loses nothing that it acknowledged."""

    def __init__(self, config: str) -> None:
        self._config = config
        self._port = free_port()
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        """Start it (again) on its port and wait until it answers."""
        command = ["radosgw", "-n", "client.admin", "-f",
                   f"--rgw_frontends=beast endpoint=127.0.0.1:{self._port} tcp_nodelay=1"]  # fmt: skip
        log = Path(self._config).with_name(f"radosgw-{self._port}.out")
        self.process = Process(command, ceph_binaries(), log, {"CEPH_CONF": self._config})
        self.process.wait_until(lambda: answers(self._port), 120)

    def kill(self) -> None:
        """Stop it at once, as a crash would."""
        self.process.kill()


def make_bucket(access: S3Access, name: str) -> None:
    """Create a bucket, owned by the one user."""
    store = S3Store(
        name, endpoint=access.endpoint, region="us-east-1", client_options={"allow_http": True},
        access_key_id=access.access_key, secret_access_key=access.secret_key, virtual_hosted_style_request=False,
    )  # fmt: skip
    signed = obstore.sign(store, "PUT", "", timedelta(seconds=60))
    with urllib.request.urlopen(urllib.request.Request(signed, method="PUT"), timeout=30) as answer:
        assert answer.status == 200


def set_bucket_quota(access: S3Access, name: str, size: int) -> None:
    """Let the bucket hold at most `size` bytes, as a full disk would."""
    settings = {"CEPH_CONF": access.config}
    run(["radosgw-admin", "quota", "set", "--quota-scope=bucket", f"--bucket={name}", f"--max-size={size}"],
        ceph_binaries(), settings)  # fmt: skip
    run(["radosgw-admin", "quota", "enable", "--quota-scope=bucket", f"--bucket={name}"], ceph_binaries(), settings)
