"""S3 for tests: Ceph's RADOS gateway over a cluster of one monitor and one object daemon."""

import shutil
import sysconfig
import tempfile
import urllib.request
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import obstore
from obstore.store import S3Store

from tests.services.binaries import ceph_binaries, environment, run
from tests.services.process import Process, Server, free_port

_CONFIG = """
[global]
fsid = {fsid}
mon_host = v2:127.0.0.1:{monitor_port}
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
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
osd_client_watch_timeout = 5
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = {size}
debug_osd = 0
debug_rgw = 0
debug_rocksdb = 0
[mon.a]
mon_data = {folder}/mon
[osd.0]
osd_data = {folder}/osd
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
    """A running cluster with one gateway. gigabytes: of objects, which are in memory."""

    def __init__(self, gigabytes: int = 4) -> None:
        self._size = gigabytes * 2**30
        self._folder = Path(tempfile.mkdtemp(prefix="ml-", dir="/tmp"))
        self._stack = ExitStack()
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        try:
            self.access = self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill the daemons, gateway first, and delete their data."""
        self._stack.close()

    def _start(self) -> S3Access:
        for name in ("mon", "osd", "rgw"):
            (self._folder / name).mkdir()
        config, fsid, monitor_port = self._folder / "ceph.conf", str(uuid.uuid4()), free_port()
        config.write_text(_CONFIG.format(
            folder=self._folder, fsid=fsid, monitor_port=monitor_port, size=self._size,
            libraries=ceph_binaries() / "usr" / "lib" / str(sysconfig.get_config_var("MULTIARCH")),
        ))  # fmt: skip
        # The monitor's first maps already know the one object daemon.
        monitors, devices = str(self._folder / "monmap"), str(self._folder / "osdmap")
        _tool(
            config, "monmaptool", "--create", "--addv", "a", f"[v2:127.0.0.1:{monitor_port}]", "--fsid", fsid, monitors
        )
        _tool(config, "osdmaptool", "--createsimple", "1", devices)
        _tool(config, "ceph-mon", "--mkfs", "-i", "a", "--monmap", monitors, "--osdmap", devices)
        self._daemon(config, "ceph-mon", "-i", "a")
        _tool(config, "ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", str(uuid.uuid4()))
        self._daemon(config, "ceph-osd", "-i", "0")
        gateway = Gateway(str(config))
        self._stack.callback(gateway.stop)
        access = S3Access(gateway.endpoint, "TESTACCESSKEY", "test-secret-key", str(config))
        _tool(config, "radosgw-admin", "user", "create", "--uid=test", "--display-name=test", "--max-buckets=0",
              f"--access-key={access.access_key}", f"--secret-key={access.secret_key}")  # fmt: skip
        return access

    def _daemon(self, config: Path, program: str, *arguments: str) -> None:
        log, extra = self._folder / f"{program}.log", {"CEPH_CONF": str(config)}
        daemon = Process([program, *arguments, "-f"], ceph_binaries(), log, extra)
        self._stack.callback(daemon.kill)


class Gateway(Server):
    """One HTTP front end of the cluster that `config` describes; killing it loses nothing that it acknowledged."""

    def __init__(self, config: str) -> None:
        super().__init__(ceph_binaries(), {"CEPH_CONF": config})
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        return ["radosgw", "-n", "client.admin", "-f",
                f"--rgw_frontends=beast endpoint=127.0.0.1:{self.port} tcp_nodelay=1"]  # fmt: skip


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
    quota = ("radosgw-admin", "quota", "--quota-scope=bucket", f"--bucket={name}")
    _tool(Path(access.config), *quota, "set", f"--max-size={size}")
    _tool(Path(access.config), *quota, "enable")


def _tool(config: Path, *command: str) -> None:
    run(list(command), f"cannot run {command[0]}", env={**environment(ceph_binaries()), "CEPH_CONF": str(config)})
