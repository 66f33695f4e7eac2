"""`deploy/kubernetes` holds what a cluster accepts, and says of memeloom what is true. No cluster is asked."""

import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from memeloom.cli.main import cli
from memeloom.configs.load import load_config

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
SETTINGS = FOLDER / "base" / "memeloom.yaml"
SECRETS = FOLDER / "overlays" / "stores" / "secrets.example.env"
VERSIONS = ("1.29", "1.35")  # the oldest and newest that the manifests are checked against
Manifest = dict[str, Any]

needs_kustomize = pytest.mark.skipif(not shutil.which("kubectl"), reason="no kubectl, whose kustomize renders them")


@cache
def rendered(overlay: str) -> tuple[Manifest, ...]:
    done = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER / overlay)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return tuple(yaml.safe_load_all(done.stdout))


def pods(manifests: tuple[Manifest, ...]) -> Iterator[tuple[str, Manifest]]:
    """Yield the name and the template of each pod."""
    for each in manifests:
        name, spec = f"{each['kind']}/{each['metadata']['name']}", each.get("spec", {})
        match each["kind"]:
            case "CronJob":
                yield name, spec["jobTemplate"]["spec"]["template"]
            case "RayCluster":
                yield f"{name}/head", spec["headGroupSpec"]["template"]
                yield from ((f"{name}/{group['groupName']}", group["template"]) for group in spec["workerGroupSpecs"])
            case "Deployment" | "StatefulSet":
                yield name, spec["template"]


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]


def secrets() -> dict[str, str]:
    return dict(line.split("=", 1) for line in SECRETS.read_text().splitlines())


@pytest.mark.parametrize("version", VERSIONS)
def test_resources_hold_to_the_schemas_of_kubernetes(version: str) -> None:
    import kubernetes_validate  # compiles grammars for seconds

    checked = 0
    for folder in (path.parent for path in sorted(FOLDER.rglob("kustomization.yaml"))):
        for resource in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
            documents = yaml.safe_load_all((folder / resource).read_text()) if resource.endswith(".yaml") else ()
            for manifest in documents:
                if manifest["kind"] != "RayCluster":
                    kubernetes_validate.validate(manifest, version, strict=True)
                    checked += 1
    assert checked > 20


@needs_kustomize
@pytest.mark.parametrize("overlay", ["base", "overlays/stores", "overlays/ray"])
def test_what_kustomize_renders_holds_to_the_schemas_too(overlay: str) -> None:
    import kubernetes_validate

    manifests = rendered(overlay)
    for manifest in manifests:
        if manifest["kind"] != "RayCluster":  # its schema is KubeRay's; its pods are Kubernetes'
            kubernetes_validate.validate(manifest, VERSIONS[-1], strict=True)
    for name, pod in pods(manifests):
        wrapped = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": pod}
        assert kubernetes_validate.validate(wrapped, VERSIONS[-1], strict=True), name


@needs_kustomize
def test_no_container_has_rights_or_takes_all_memory() -> None:
    for name, pod in pods(rendered("overlays/ray")):
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["runAsUser"] >= 999, name
        for container in containers(pod):
            locked = container["securityContext"]
            assert locked["readOnlyRootFilesystem"] is True, name
            assert locked["allowPrivilegeEscalation"] is False, name
            assert locked["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["limits"]["memory"], name
            assert container["resources"]["requests"]["cpu"], name


@needs_kustomize
@pytest.mark.parametrize("overlay", ["base", "overlays/stores", "overlays/ray"])
def test_all_that_manifests_name_exists(overlay: str) -> None:
    manifests = rendered(overlay)
    known = {(each["kind"], each["metadata"]["name"]) for each in manifests}
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(manifests)}
    keys = set(secrets())
    for name, pod in pods(manifests):
        volumes = {each["name"]: each for each in pod["spec"].get("volumes", [])}
        for each in volumes.values():
            if "configMap" in each:
                assert ("ConfigMap", each["configMap"]["name"]) in known, name
            if "persistentVolumeClaim" in each:
                assert ("PersistentVolumeClaim", each["persistentVolumeClaim"]["claimName"]) in known, name
        claimed = {
            claim["metadata"]["name"]
            for each in manifests
            if f"{each['kind']}/{each['metadata']['name']}" == name
            for claim in each["spec"].get("volumeClaimTemplates", [])
        }
        for container in containers(pod):
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= {*volumes, *claimed}, name
            named = [each["valueFrom"]["secretKeyRef"] for each in container.get("env", []) if "valueFrom" in each]
            assert all(each["name"] == "memeloom" and each["key"] in keys for each in named), name
    for each in manifests:
        if each["kind"] == "Service":
            wanted = each["spec"]["selector"].items()
            assert any(wanted <= had.items() for had in labels.values()), each["metadata"]["name"]
        if each["kind"] == "NetworkPolicy":
            wanted = each["spec"]["podSelector"].get("matchLabels", {}).items()
            assert any(wanted <= had.items() for had in labels.values()), each["metadata"]["name"]


@needs_kustomize
def test_pods_run_commands_and_settings_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in secrets().items():
        monkeypatch.setenv(name, value)
    config = load_config(SETTINGS)
    hosts = {each["metadata"]["name"] for each in rendered("overlays/stores") if each["kind"] == "Service"}
    named = (config.store.documents, str(config.store.s3.endpoint), str(config.crawl.frontier))
    assert all(any(host in address for host in hosts) for address in named)
    ran = set()
    for name, pod in pods(rendered("overlays/stores")):
        (container, *_) = pod["spec"]["containers"]
        if "/memeloom/" not in container["image"]:
            continue
        assert container["args"][:2] == ["-c", "/etc/memeloom/memeloom.yaml"]
        asked = ["-c", str(SETTINGS), *container["args"][2:], "--help"]
        done = CliRunner().invoke(cli, asked)
        assert (done.exit_code, "Usage:" in done.output) == (0, True), done.output
        ran.add(name.partition("/")[2])
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        scraped = pod["metadata"].get("annotations", {}).get("prometheus.io/port")
        assert scraped == (str(ports.popitem()[1]) if ports else None)
    assert ran == {"crawl", "ocr", "templates", "serve", "build-dataset", "train", "backup"}


@needs_kustomize
def test_ports_are_those_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in secrets().items():
        monkeypatch.setenv(name, value)
    config = load_config(SETTINGS)
    ports = {
        port["name"]: port["containerPort"]
        for _, pod in pods(rendered("base"))
        for container in containers(pod)
        for port in container.get("ports", [])
    }
    assert ports == {"metrics": config.metrics.port, "http": config.serve.port}
    policies = [each for each in rendered("base") if each["kind"] == "NetworkPolicy"]
    opened = {port["port"] for each in policies for rule in each["spec"].get("ingress", []) for port in rule["ports"]}
    assert opened == set(ports.values())


@needs_kustomize
def test_ray_of_the_cluster_is_that_of_the_image() -> None:
    (cluster,) = (each for each in rendered("overlays/ray") if each["kind"] == "RayCluster")
    lock = (FOLDER.parents[1] / "requirements.lock").read_text()
    assert f"\nray=={cluster['spec']['rayVersion']} " in lock
    driver = dict(pods(rendered("overlays/ray")))["CronJob/build-dataset"]
    images = {name: pod["spec"]["containers"][0]["image"] for name, pod in pods((cluster,))}
    assert set(images.values()) == {driver["spec"]["containers"][0]["image"]}
    assert driver["metadata"]["labels"]["memeloom/ray"] == "true"
