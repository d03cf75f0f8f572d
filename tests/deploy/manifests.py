"""Kubernetes objects of deploy/, read as `kubectl kustomize` reads them where nothing is patched."""

import re
import shutil
import subprocess

import pytest
import yaml

from tests.paths import ROOT

KUBERNETES = ROOT / "deploy" / "kubernetes"
FOLDERS = ("base", "gpus", "monitoring", "complete", "examples/vllm")
OWN_SCOPE = ("Namespace",)

_HASH = re.compile(r"-[a-z0-9]{10}$")
_OF_HELM = ("app.kubernetes.io/managed-by", "helm.sh/chart")


def documents(path):
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def read(folder):
    """The objects of one folder without patches and components."""
    (kustomization,) = documents(folder / "kustomization.yaml")
    found = [each for name in kustomization["resources"] for each in _resource(folder / name)]
    for generator in kustomization.get("configMapGenerator", []):
        metadata = {"name": generator["name"], **generator["options"]}
        data = {name: (folder / name).read_text() for name in generator["files"]}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    for each in found:
        if "namespace" in kustomization and each["kind"] not in OWN_SCOPE:
            each["metadata"]["namespace"] = kustomization["namespace"]
    return found


def _resource(path):
    return read(path) if path.is_dir() else documents(path)


def built(folder):
    """What kubectl makes of it."""
    if shutil.which("kubectl") is None:
        pytest.skip(
            "no kubectl here, and Debian 12's (1.20) knows no components; the rest is read without it"
        )
    command = ["kubectl", "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def by_name(objects):
    named = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert len(named) == len(objects), "two objects of one name"
    return named


def meaning(objects):
    """What is left when hashes of names, Helm's own marks and the layout of texts are taken away."""
    configs = {
        each["metadata"]["name"]: _HASH.sub("", each["metadata"]["name"])
        for each in objects
        if each["kind"] == "ConfigMap"
    }
    return by_name([_plain(each, configs) for each in objects])


def _plain(value, configs):
    if isinstance(value, dict):
        kept = {
            name: _plain(each, configs)
            for name, each in value.items()
            if name not in (*_OF_HELM, "checksum/config")
        }
        kept = {name: each for name, each in kept.items() if (name, each) != ("annotations", {})}
        if "stagewatch.yaml" in kept:
            kept["stagewatch.yaml"] = yaml.safe_load(kept["stagewatch.yaml"])
        return kept
    if isinstance(value, list):
        return [_plain(each, configs) for each in value]
    return configs.get(value, value) if isinstance(value, str) else value


def pods(objects):
    """`(object, its pod's template)` of everything that runs."""
    return [
        (each, each["spec"]["template"])
        for each in objects
        if each["kind"] in ("DaemonSet", "Deployment", "StatefulSet")
    ]


def containers(template):
    """Those that run, the sidecars that run beside them first."""
    spec = template["spec"]
    return [*spec.get("initContainers", []), *spec.get("containers", [])]
