"""Whom GPUs serve and which pod has them."""

import os
import subprocess
import sys

import pytest

from exporters.gpu.plan import Replica
from exporters.gpu.pods import Mapping, Pod, ask_kubelet, located
from exporters.gpu.replicas import Device, command_lines, resolve, serves
from tests.exporters.gpu.kubelet import answer, claimed, container, kubelet, pod
from tests.exporters.gpu.watching import watching

DEVICES = [
    Device(uuid="GPU-aaaa", index=0, minor=1),
    Device(uuid="GPU-aabb", index=1, minor=0),
    Device(uuid="MIG-cccc", parent="GPU-aabb", gi=3),
]
R0 = (("replica", "r0"), ("service", "chat"))


@pytest.mark.parametrize(
    ("name", "uuid"),
    [
        ("0", "GPU-aaaa"),
        (" 1 ", "GPU-aabb"),
        ("GPU-aabb", "GPU-aabb"),
        ("GPU-aaa", "GPU-aaaa"),
        ("MIG-", "MIG-cccc"),
        ("GPU-aa", None),
        ("GPU-ffff", None),
        ("9", None),
        ("", None),
    ],
)
def test_a_gpu_is_called_as_cuda_lets_one(name, uuid):
    found = resolve(name, DEVICES)

    assert (found.uuid if found else None) == uuid


@pytest.mark.parametrize(
    ("device_id", "uuid"),
    [
        ("GPU-aaaa", "GPU-aaaa"),
        ("GPU-aaaa::1", "GPU-aaaa"),
        ("MIG-cccc", "MIG-cccc"),
        ("nvidia1", "GPU-aaaa"),
        ("nvidia0/gi3", "MIG-cccc"),
        ("nvidia0/gi3/vgpu2", "MIG-cccc"),
        ("nvidia0/gi4", None),
        ("nvidia7", None),
        ("gpu-1", "GPU-aabb"),
        ("k8s.gpu.nvidia.com/claim=gpu-0", "GPU-aaaa"),
        ("GPU-other", None),
        ("\x00\ud800", None),
    ],
)
def test_a_kubelets_device_is_found_whatever_it_is_called(device_id, uuid):
    asked = Pod(namespace="n", pod="p", container="c", device_id=device_id)

    found, lost = located(Mapping(pods=(asked,)), DEVICES)

    assert [each for each, _ in found] == ([uuid] if uuid else [])
    assert len(found) + len(lost) == 1


def test_the_kubelets_answer_is_read_and_other_resources_are_passed_over(tmp_path):
    path = tmp_path / "kubelet.sock"
    told = answer(
        pod("chat-0", container("vllm", "GPU-1", "GPU-2"), container("side")),
        pod("other", container("x", "0", resource="example.com/fpga")),
        pod("dra", container("y", claims=[claimed("gpu.nvidia.com", "gpu-3")])),
    )

    with kubelet(path, lambda: told):
        mapping = ask_kubelet(path)

    assert [(each.pod, each.container, each.device_id) for each in mapping.pods] == [
        ("chat-0", "vllm", "GPU-1"),
        ("chat-0", "vllm", "GPU-2"),
        ("dra", "y", "gpu-3"),
    ]
    assert mapping.pods[0].namespace == "inference"
    assert mapping.problem == ""


@pytest.mark.parametrize("garbage", [b"\xff" * 40, b"\x0a\x7fshort"])
def test_an_answer_that_is_no_answer_is_a_problem_with_a_name(tmp_path, garbage):
    path = tmp_path / "kubelet.sock"

    with kubelet(path, lambda: garbage):
        mapping = ask_kubelet(path)

    assert mapping.pods == ()
    assert mapping.problem


def test_no_socket_is_no_kubelet_and_a_file_is_none_either(tmp_path):
    file = tmp_path / "file"
    file.touch()

    assert ask_kubelet(tmp_path / "absent") is None
    assert ask_kubelet(file) is None


def test_a_kubelet_without_grpc_is_told_with_the_way_out(tmp_path):
    """In a process where grpc cannot be imported: it is not part of [gpu]."""
    code = (
        "import sys; sys.modules['grpc'] = None\n"
        "from pathlib import Path; from exporters.gpu.pods import ask_kubelet\n"
        "print(ask_kubelet(Path(sys.argv[1])).problem)"
    )
    path = tmp_path / "kubelet.sock"

    with kubelet(path, answer):
        run = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        )

    assert run.stdout.strip() == "grpc_missing"


def test_a_replica_is_found_by_the_command_line_of_its_server():
    lines = {7: ["/usr/bin/python worker", "vllm serve m --port 8000"], 8: ["other"]}
    devices = [
        Device(uuid="GPU-a", index=0, pids=(7,)),
        Device(uuid="GPU-b", index=1, pids=(8,)),
        Device(uuid="GPU-c", index=2, pids=(9,)),
    ]
    told = Replica(series=R0, process=r"vllm serve .*--port 8000")

    found, unknown = serves([told], devices, lambda pid: lines.get(pid, []))

    assert found == [("GPU-a", R0)]
    assert unknown == []


def test_the_command_lines_of_a_process_go_up_to_its_ancestors():
    code = "import time; print(flush=True); time.sleep(30)"
    child = subprocess.Popen([sys.executable, "-c", code, "marker-of-ours"], stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        lines = list(command_lines(child.pid))
    finally:
        child.kill()
        child.wait()
        child.stdout.close()

    assert "marker-of-ours" in lines[0]
    assert any("pytest" in line or "execnet" in line for line in lines[1:])


def test_a_process_that_is_gone_has_no_command_line():
    assert list(command_lines(2**22 + 1)) == []


def test_the_process_on_a_gpu_tells_whom_it_serves(fake):
    """The whole way: the driver lists a pid, the process has a command line, the page joins them."""
    fake.set(3, procs=f"{os.getpid()}:1048576:4294967295:4294967295")
    told = {"service": "chat", "replica": "r7", "role": "decode", "process": "pytest|execnet"}

    with watching(fake, replicas=[told]) as watch:
        watch.wait_until_read()
        ((found, _),) = watch.wait_for(lambda: watch.all("gpu_serves"))

    assert found == {
        "gpu_uuid": fake.uuid(3),
        "service": "chat",
        "replica": "r7",
        "role": "decode",
    }


def test_a_replica_whose_gpu_is_not_here_is_a_warning_said_once(fake, caplog):
    told = {"service": "chat", "replica": "r0", "gpus": ["12"]}

    with watching(fake, replicas=[told]) as watch:
        watch.wait_until_read()
        for _ in range(3):
            watch.sidecar.neighbours.look()

    assert caplog.text.count("r0: no GPU here is called '12'") == 1
