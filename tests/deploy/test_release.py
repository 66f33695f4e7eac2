"""A release: its version, its changelog, a wheel that the sdist builds alone, a valid bill of materials, a citation."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from tests.deploy.scripts import script

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return script("release")


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    return script("audit")


def test_a_release_needs_its_section_of_the_changelog(release: ModuleType) -> None:
    text = "## [Unreleased]\n\n- a\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n- b\n\n## [0.1.0] - 2026-01-01\n"
    assert release.changelog_section(text, "0.2.0") == "### Added\n\n- b"
    for version, said in (("0.3.0", "has no section"), ("0.1.0", "says nothing of"), ("0.2", "has no section")):
        with pytest.raises(SystemExit, match=said):
            release.changelog_section(text, version)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a==1 --hash=sha256:" + "0" * 64, ""),
        ("a[b]==1.0 ; python_version < '3.12' \\\n    --hash=sha256:" + "0" * 64, ""),
        ("# a comment", ""),
        ("a>=1 --hash=sha256:" + "0" * 64, "one version"),
        ("a==1", "without a sha256"),
        ("a==1 --hash=md5:" + "0" * 32, "without a sha256"),
        ("a @ https://h.example/a.whl", "one version"),
        ("--pre", "one version"),
        ("-e .", "one version"),
    ],
)
def test_a_lock_pins_every_package_by_version_and_hash(audit: ModuleType, line: str, said: str) -> None:
    faults = list(audit.lock_faults("x.lock", line))
    assert len(faults) == bool(said)
    assert said in "".join(faults)


@pytest.mark.parametrize(
    ("expression", "is_allowed"),
    [
        ("MIT", True), ("MPL-2.0 AND (Apache-2.0 OR MIT)", True), ("GPL-3.0-only OR MIT", True), ("", False),
        ("GPL-3.0-only", False), ("MIT AND GPL-3.0-only", False), ("Other/Proprietary License", False),
    ],
)  # fmt: skip
def test_a_licence_is_allowed_or_named(audit: ModuleType, expression: str, is_allowed: bool) -> None:
    assert (audit.licence_fault(expression) == "") == is_allowed


def test_the_audit_finds_nothing_in_locks_and_licences(audit: ModuleType) -> None:
    assert [*audit.locks(), *audit.licences()] == []


def test_a_secret_is_found(audit: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ROOT", tmp_path)
    monkeypatch.setattr(audit, "BASELINE", tmp_path / "secrets.baseline")
    key = "AKIA" + "Q3EGRIFFBBUMRVRP"  # made up; not in one piece, which would be found here
    (tmp_path / "settings.py").write_text(f'aws_key = "{key}"\n')
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    (tmp_path / "secrets.baseline").write_text("[]")
    assert "settings.py:1: AWS Access Key" in list(audit.secrets())
    audit.accept()
    assert list(audit.secrets()) == []


def test_the_citation_is_valid() -> None:
    command = ["check_jsonschema", "--builtin-schema", "vendor.citation-file-format", str(ROOT / "CITATION.cff")]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_forms_of_issues_have_fields() -> None:
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        if path.name != "config.yml":
            assert {"name", "description", "body"} <= set(form)
            assert all({"type", "attributes"} <= set(field) for field in form["body"])


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of `deploy/release.py` in a clone with the tag v9.8.7 and its section of the changelog."""
    clone = tmp_path_factory.mktemp("release") / "clone"
    if subprocess.run(["git", "-C", ROOT, "rev-parse"], capture_output=True, check=False).returncode:
        pytest.skip("no git repository: a release is built from one")
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    shutil.copy(ROOT / "pyproject.toml", clone)
    shutil.copy(ROOT / "deploy/release.py", clone / "deploy")
    changelog = clone / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## [Unreleased]\n", "## [9.8.7] - 2026-01-01\n", 1))
    identity = ["-c", "user.name=t", "-c", "user.email=t@h.example"]
    for command in (["commit", "-qam", "Release 9.8.7"], ["tag", "v9.8.7"]):
        subprocess.run(["git", *identity, *command], cwd=clone, check=True)
    done = subprocess.run(
        [sys.executable, "deploy/release.py"], cwd=clone, capture_output=True, text=True, check=False, timeout=250
    )
    assert done.returncode == 0, done.stderr
    return clone / "build/release"


@pytest.mark.soak
def test_a_tag_gives_sdist_wheel_bill_and_sums(released: Path) -> None:
    names = {path.name for path in released.iterdir()}
    wheel, sdist = "memeloom-9.8.7-py3-none-any.whl", "memeloom-9.8.7.tar.gz"
    assert names == {wheel, sdist, "memeloom-9.8.7.cdx.json", "SHA256SUMS"}
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=released, check=True)
    bill = json.loads((released / "memeloom-9.8.7.cdx.json").read_text())
    assert bill["metadata"]["component"]["version"] == "9.8.7"
    components = {each["name"].lower() for each in bill["components"]}
    assert {"scrapy", "tensorflow", "numpy", "lxml"} <= components
    assert not {"pytest", "ruff", "memeloom"} & components
    with tarfile.open(released / sdist) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=released.parents[1], capture_output=True, text=True, check=True)
    # The link is for mypy in a checkout.
    assert set(listed.stdout.split("\n")) - {"", ".types/memeloom"} <= files


@pytest.mark.soak
def test_the_installed_command_tells_the_version_of_the_tag(released: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(next(released.glob("*.whl"))) as archive:
        archive.extractall(tmp_path)
    command = [sys.executable, "-c", "from memeloom.cli.main import main; main(['--version'])"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "memeloom 9.8.7\n"
