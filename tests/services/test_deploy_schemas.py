"""The files of examples are what Kubernetes, Compose, the Collector and GitHub take, by their own schemas and their own program."""

import subprocess
from pathlib import Path

import pytest
import yaml
from python_process import run_python

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
MANIFESTS = sorted(DEPLOY.glob("kubernetes-*.yaml"))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_manifests_are_kubernetes_own(path):
    schemas = pytest.importorskip(
        "kubernetes_validate", reason="no kubernetes-validate; .ci/services installs it"
    )
    manifests = list(yaml.safe_load_all(path.read_text("utf-8")))
    assert manifests
    for manifest in manifests:
        schemas.validate(manifest, "1.32", strict=True)
        bad = {**manifest, "spec": {**manifest["spec"], "replica": 3}}
        with pytest.raises(schemas.ValidationError):
            schemas.validate(bad, "1.32", strict=True)


def test_the_compose_file_is_composes_own():
    models = pytest.importorskip("compose_pydantic", reason="no compose-pydantic; .ci/services installs it")
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    models.ComposeSpecification(**compose)
    bad = {**compose, "services": {"ragmeter": {"image": "x", "restrat": "always"}}}
    with pytest.raises(ValueError, match="restrat"):
        models.ComposeSpecification(**bad)


def test_the_workflow_is_githubs_own(tmp_path):
    checker = pytest.importorskip("check_jsonschema", reason="no check-jsonschema; .ci/services installs it")
    text = (DEPLOY.parent / "ci" / "quality.yml").read_text("utf-8")
    bad = tmp_path / "bad.yml"
    bad.write_text(text.replace("runs-on:", "runs-in:"))
    for path, code in ((DEPLOY.parent / "ci" / "quality.yml", 0), (bad, 1)):
        done = run_python("-m", checker.__name__, "--builtin-schema", "vendor.github-workflows", str(path))
        assert done.returncode == code, done.stdout


def test_the_collector_takes_its_configuration(collector_program, tmp_path):
    config = tmp_path / "collector.yaml"
    text = (DEPLOY / "collector.yaml").read_text("utf-8")
    config.write_text(text.replace("/var/lib/otelcol", str(tmp_path / "queue")))
    done = subprocess.run(
        [collector_program, "validate", "--config", str(config)],
        env={"RAGMETER_SERVE_TOKEN": "0123456789abcdef"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
