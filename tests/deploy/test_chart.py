"""The Helm chart says what the kustomization says."""

import json
import shutil
import subprocess

import jsonschema
import pytest
import yaml

from stagewatch.release import VERSION
from tests.deploy import real_helm
from tests.deploy.chart import CHART, Renderer, TemplateError, parsed, rendered
from tests.deploy.manifests import KUBERNETES, meaning, read

EVERYTHING = {"gpus": {"enabled": True}, "monitoring": {"enabled": True}}
OTHERS = {
    **EVERYTHING,
    "image": {"registry": "registry.example.com/llm", "tag": "9.9", "pullSecrets": [{"name": "r"}]},
    "secret": "tokens",
    "networkPolicy": {"enabled": False},
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/r"}},
    "server": {
        "storage": {"size": "100Gi", "className": "fast"},
        "env": [{"name": "PD_ROUTING_KEY", "value": "x"}],
        "nodeSelector": {"pool": "tools"},
        "tolerations": [{"operator": "Exists"}],
    },
    "monitoring": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "30s"},
}
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def without_server_namespace(objects):
    """`helm install --create-namespace` makes it."""
    return {key: each for key, each in objects.items() if key != ("Namespace", "stagewatch")}


@pytest.mark.parametrize(("values", "folder"), [({}, "base"), (EVERYTHING, "complete")])
def test_the_chart_and_the_kustomization_are_the_same_objects(values, folder):
    ours, _ = rendered(values)

    assert meaning(ours) == without_server_namespace(meaning(read(KUBERNETES / folder)))


def test_what_is_said_in_values_reaches_its_place():
    objects = meaning(rendered(OTHERS, release="sw", namespace="watch")[0])
    server = objects["StatefulSet", "sw"]
    pod, claim = (
        server["spec"]["template"]["spec"],
        server["spec"]["volumeClaimTemplates"][0]["spec"],
    )
    (container,) = pod["containers"]
    (node_container,) = objects["DaemonSet", "sw-gpus"]["spec"]["template"]["spec"]["containers"]

    assert container["image"] == "registry.example.com/llm/stagewatch-server:9.9"
    assert node_container["image"] == "registry.example.com/llm/stagewatch-sidecar:9.9-kubernetes"
    assert node_container["env"][0]["value"] == "http://sw.watch:4318"
    assert container["env"][0]["valueFrom"]["secretKeyRef"]["name"] == "tokens"
    assert container["env"][-1] == {"name": "PD_ROUTING_KEY", "value": "x"}
    assert (pod["nodeSelector"], pod["imagePullSecrets"]) == ({"pool": "tools"}, [{"name": "r"}])
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == (
        "fast",
        "100Gi",
    )
    assert objects["ServiceMonitor", "sw"]["metadata"]["labels"]["release"] == "prometheus"
    assert objects["ServiceAccount", "sw"]["metadata"]["annotations"]
    assert not [key for key in objects if key[0] == "NetworkPolicy"]


def test_another_configuration_starts_another_pod():
    def checksum(values):
        objects, _ = rendered(values)
        (server,) = [each for each in objects if each["kind"] == "StatefulSet"]
        return server["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    assert checksum({}) == checksum(EVERYTHING)
    assert checksum({}) != checksum({"config": {"objectives": []}})


def test_the_notes_say_where_the_pages_are():
    _, notes = rendered({}, release="sw", namespace="watch")

    assert "kubectl -n watch port-forward service/sw 8400" in notes


def test_chart_and_application_have_the_version_of_the_project():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


@pytest.mark.parametrize("values", [VALUES, {**VALUES, **OTHERS}], ids=["default", "others"])
def test_our_values_are_of_their_schema(values):
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.validate(values, SCHEMA)


@pytest.mark.parametrize(
    "slip",
    [
        {"gpu": {"enabled": True}},
        {"gpus": {"enabled": "yes"}},
        {"image": {"registry": "registry.example.com/"}},
        {"server": {"storage": {"size": "20"}}},
        {"server": {"replicas": 2}},
        {"monitoring": {"interval": "15"}},
    ],
    ids=str,
)
def test_a_slip_in_values_is_refused_before_anything_is_installed(slip):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**VALUES, **slip}, SCHEMA)


def test_every_value_is_used_by_a_template():
    text = "".join(file.read_text() for file in (CHART / "templates").iterdir())

    paths = {
        f"{top}.{name}"
        for top, under in VALUES.items()
        if isinstance(under, dict)
        for name in under
    }
    of_config = {path for path in paths if path.startswith("config.")}

    assert {path for path in paths - of_config if f".Values.{path}" not in text} == set()


@pytest.mark.parametrize(
    "template", ["{{ range .Values }}{{ end }}", "{{ if .Values }}", "{{ lookup . }}", "{{ nope }}"]
)
def test_what_the_renderer_does_not_know_it_refuses(template):
    with pytest.raises(TemplateError):
        Renderer({"a": 1}, {}, {}).render(parsed(template), {"Values": {"a": 1}})


@pytest.mark.parametrize(
    "values", [{}, EVERYTHING, OTHERS], ids=["default", "everything", "others"]
)
def test_the_real_helm_renders_the_same(values):
    ours, _ = rendered(values, release="sw", namespace="watch")

    assert meaning(real_helm.rendered(CHART, values, release="sw", namespace="watch")) == meaning(
        ours
    )


def test_the_helm_of_this_machine_finds_nothing_to_say():
    if shutil.which("helm") is None:
        pytest.skip("no helm on this machine")
    done = subprocess.run(
        ["helm", "lint", "--strict", CHART], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout
