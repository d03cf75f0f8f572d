"""What a cluster would say to our manifests, as far as that can be known without one."""

import os
import re

import kubernetes_validate
import pytest
import yaml

from stagewatch.config import load
from stagewatch.release import VERSION
from tests.deploy.chart import rendered
from tests.deploy.manifests import (
    FOLDERS,
    KUBERNETES,
    built,
    by_name,
    containers,
    documents,
    meaning,
    pods,
    read,
)

OLDEST, NEWEST = "1.28", "1.37"
COMPLETE = read(KUBERNETES / "complete")
ENGINES = [
    documents(KUBERNETES / "components/engine-sidecar" / f"{name}.yaml")[0]
    for name in ("deployment", "stateful-set")
]
EVERYTHING = [*COMPLETE, *ENGINES]
GROUP = "monitoring.coreos.com"
TOKENS = {"STAGEWATCH_SENDER_TOKEN": "one", "STAGEWATCH_ONCALL_TOKEN": "two"}
POD = {"ENGINE_SERVICE": "chat", "ENGINE_REPLICA": "chat-0"}
CONFIGS = sorted(KUBERNETES.rglob("stagewatch.yaml"))


def named(each):
    return f"{each['kind']}-{each['metadata']['name']}"


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize(
    "each", [each for each in COMPLETE if GROUP not in each["apiVersion"]], ids=named
)
def test_each_object_is_of_its_schema_with_nothing_that_it_does_not_know(each, version):
    kubernetes_validate.validate(each, version, strict=True)


def test_a_slip_in_an_object_is_found():
    (server,) = [each for each in COMPLETE if each["kind"] == "StatefulSet"]
    slip = {**server, "spec": {**server["spec"], "replica": 2}}

    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(slip, NEWEST, strict=True)


@pytest.mark.parametrize("folder", FOLDERS)
def test_kubectl_builds_each_folder_and_finds_what_we_find(folder):
    objects = built(KUBERNETES / folder)

    for each in objects:
        if GROUP not in each["apiVersion"]:
            kubernetes_validate.validate(each, NEWEST, strict=True)
    if not folder.startswith("examples"):
        assert meaning(objects) == meaning(read(KUBERNETES / folder))


def test_kubectl_puts_the_sidecar_beside_a_vllm_and_leaves_the_rest_alone():
    objects = built(KUBERNETES / "examples/vllm")
    ((deployment, template),) = pods(objects)
    (config,) = [each for each in objects if each["kind"] == "ConfigMap"]
    volumes = {each["name"]: each for each in template["spec"]["volumes"]}

    assert [each["name"] for each in containers(template)] == ["stagewatch", "vllm"]
    assert volumes["stagewatch-config"]["configMap"]["name"] == config["metadata"]["name"]
    assert config["metadata"]["name"] != "stagewatch-engine", "a change must start new pods"
    assert deployment["metadata"]["labels"]["app"] == template["metadata"]["labels"]["app"]


def test_kubectl_makes_the_gpu_sidecar_privileged_only_where_the_kernels_log_is_asked_for(tmp_path):
    away = (KUBERNETES / "gpus").as_posix(), (KUBERNETES / "components/kernel-log").as_posix()
    plain, with_log = (
        by_name(built(folder)) for folder in (KUBERNETES / "gpus", _with(tmp_path, *away))
    )
    security = [
        each["DaemonSet", "stagewatch-gpus"]["spec"]["template"]["spec"]["containers"][0][
            "securityContext"
        ]
        for each in (plain, with_log)
    ]

    assert [each.get("privileged", False) for each in security] == [False, True]


def _with(folder, resource, component):
    """A kustomization of somebody else's, with ours in it, both by relative paths as it wants."""
    said = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(resource, folder)],
        "components": [os.path.relpath(component, folder)],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(said))
    return folder


@pytest.mark.parametrize("file", CONFIGS, ids=lambda each: each.parent.name)
def test_each_configuration_is_one_that_stagewatch_takes(file, monkeypatch):
    for name, value in {**TOKENS, **POD}.items():
        monkeypatch.setenv(name, value)

    config = load(file)

    assert config.exporters.engine or config.exporters.gpu or config.auth.senders


def test_what_the_environment_of_the_gpu_sidecar_says_counts(monkeypatch):
    objects = by_name(COMPLETE)
    (container,) = containers(objects["DaemonSet", "stagewatch-gpus"]["spec"]["template"])
    told = {each["name"]: each.get("value", "node-7") for each in container["env"]}
    for name, value in {**told, **TOKENS}.items():
        monkeypatch.setenv(name, value)

    gpu = load(KUBERNETES / "gpus" / "stagewatch.yaml").exporters.gpu
    service = objects["Service", "stagewatch"]

    assert gpu.node == "node-7"
    assert (
        gpu.endpoint
        == f"http://{service['metadata']['name']}.{service['metadata']['namespace']}:4318"
    )
    assert gpu.listen_port == container["ports"][0]["containerPort"]


def test_a_configuration_of_the_chart_is_one_that_stagewatch_takes(tmp_path, monkeypatch):
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)
    objects, _ = rendered({"gpus": {"enabled": True}})
    texts = [each["data"]["stagewatch.yaml"] for each in objects if each["kind"] == "ConfigMap"]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.yaml").write_text(text)
        load(tmp_path / f"{number}.yaml")

    assert len(texts) == 2


def test_selectors_find_the_pods_that_are_meant_and_no_others():
    templates = {
        each["metadata"]["name"]: template["metadata"]["labels"]
        for each, template in pods(COMPLETE)
    }

    def found(selector):
        return [name for name, labels in templates.items() if selector.items() <= labels.items()]

    for each, _ in pods(COMPLETE):
        assert found(each["spec"]["selector"]["matchLabels"]) == [each["metadata"]["name"]]
    for each in COMPLETE:
        spec = each.get("spec", {})
        if each["kind"] == "Service":
            assert found(spec["selector"]) == ["stagewatch"]
        if each["kind"] in ("NetworkPolicy", "PodMonitor"):
            asked = spec.get("podSelector") or spec["selector"]
            assert found(asked["matchLabels"]) == [each["metadata"]["name"]]


def test_a_service_monitor_finds_its_service_and_the_port_on_it():
    objects = by_name(COMPLETE)
    monitor, service = objects["ServiceMonitor", "stagewatch"], objects["Service", "stagewatch"]
    asked = monitor["spec"]["selector"]["matchLabels"]

    assert asked.items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert {each["port"] for each in monitor["spec"]["endpoints"]} <= {
        each["name"] for each in service["spec"]["ports"]
    }


def test_ports_that_are_named_are_there():
    """Probes, services, policies and monitors name ports; a name that no container has is silence."""
    there = {
        port["name"]: port["containerPort"]
        for _, template in pods(EVERYTHING)
        for container in containers(template)
        for port in container["ports"]
    }
    text = "".join(yaml.safe_dump(each) for each in EVERYTHING)
    asked = set(re.findall(r"(?:targetPort|port): ([a-z][a-z-]*)", text))

    assert asked <= set(there)
    assert {"pages", "otlp-http", "otlp-grpc", "metrics", "stagewatch"} <= asked
    assert there == {
        "pages": 8400,
        "otlp-http": 4318,
        "otlp-grpc": 4317,
        "metrics": 9466,
        "stagewatch": 9464,
    }


def test_probes_ask_what_the_programs_answer():
    """GPUs and server have /healthz, the engines' sidecar answers at /metrics alone."""
    asked = {
        (each["metadata"]["name"], kind, container[kind]["httpGet"]["path"])
        for each, template in pods(EVERYTHING)
        for container in containers(template)
        for kind in ("startupProbe", "livenessProbe", "readinessProbe")
        if kind in container
    }

    assert asked == {
        ("stagewatch", "startupProbe", "/healthz"),
        ("stagewatch", "livenessProbe", "/healthz"),
        ("stagewatch", "readinessProbe", "/readyz"),
        ("stagewatch-gpus", "livenessProbe", "/healthz"),
        ("engine", "livenessProbe", "/metrics"),
    }


def test_the_engine_of_the_example_can_send_spans():
    """Before 0.20 (0.17 or so) vLLM's image has no OpenTelemetry, and ends where it is asked for it."""
    _, _, version = yaml.safe_load((KUBERNETES / "examples/vllm/vllm.yaml").read_text())["spec"][
        "template"
    ]["spec"]["containers"][0]["image"].partition(":v")

    assert tuple(int(part) for part in version.split(".")) >= (0, 20)


def test_our_images_have_the_version_of_the_project_and_claim_no_registry():
    images = {
        container["image"] for _, template in pods(EVERYTHING) for container in containers(template)
    }

    assert images == {
        f"stagewatch-server:{VERSION}",
        f"stagewatch-sidecar:{VERSION}",
        f"stagewatch-sidecar:{VERSION}-kubernetes",
    }


def test_no_container_may_more_than_it_needs():
    for each, template in pods(EVERYTHING):
        for container in containers(template):
            security = {
                **template["spec"].get("securityContext", {}),
                **container["securityContext"],
            }
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["seccompProfile"] == {"type": "RuntimeDefault"}
            assert "privileged" not in security
            assert security.get("runAsNonRoot", False) is (each["kind"] != "DaemonSet")
            assert container["resources"]["limits"].keys() == {"memory"}, "a CPU limit throttles"
        spec = template["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert [volume["name"] for volume in spec["volumes"] if "hostPath" in volume] == (
            ["pod-resources"] if each["kind"] == "DaemonSet" else []
        )


def test_what_is_written_lies_on_a_volume():
    """The root is read-only: store, spool and what lies under /tmp need a place."""
    for _, template in pods(EVERYTHING):
        for container in containers(template):
            writable = {
                each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")
            }
            assert "/var/lib/stagewatch" in writable


def test_the_server_is_one():
    (server,) = [each for each in COMPLETE if each["kind"] == "StatefulSet"]

    assert server["spec"]["replicas"] == 1


def test_every_object_says_what_it_is_part_of():
    assert {each["metadata"]["labels"]["app.kubernetes.io/part-of"] for each in COMPLETE} == {
        "stagewatch"
    }
