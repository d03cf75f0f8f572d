"""Which pod has which GPU, from the kubelet's PodResources socket (gRPC, v1)."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from exporters.gpu.replicas import Device, resolve

__all__ = ["Mapping", "Pod", "ask_kubelet", "located"]

_CALL: Final = "/v1.PodResourcesLister/List"
_PATIENCE_S: Final = 2.0
_LARGEST: Final = 16 * 1024 * 1024
_DEVICE_NODE: Final = re.compile(r"nvidia(\d+)(?:/gi(\d+))?(?:/.*)?")
_DRA_NAME: Final = re.compile(r"(?:.*=)?gpu-(\d+)")
_OURS: Final = ("nvidia.com/", "gpu.nvidia.com")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One container and one device that it was given."""

    namespace: str
    pod: str
    container: str
    device_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """What the kubelet said last. `problem` is a word when it said nothing."""

    pods: tuple[Pod, ...] = ()
    problem: str = ""
    at_s: float | None = None


def ask_kubelet(socket: Path) -> Mapping | None:
    """None where there is no kubelet: most machines are no nodes of a cluster."""
    try:
        if not stat.S_ISSOCK(socket.stat().st_mode):
            return None
    except PermissionError:
        return Mapping(problem="no_permission")
    except OSError:
        return None
    try:
        import grpc  # noqa: PLC0415 - only where there is a kubelet, and not in [gpu]
    except ImportError:
        return Mapping(problem="grpc_missing")
    options = [("grpc.max_receive_message_length", _LARGEST)]
    with grpc.insecure_channel(f"unix://{socket}", options=options) as channel:
        call = channel.unary_unary(
            _CALL, request_serializer=bytes, response_deserializer=_messages()["Answer"].FromString
        )
        try:
            answer = call(b"", timeout=_PATIENCE_S)
        except grpc.RpcError as error:
            return Mapping(problem=str(error.code().name).lower())
    return Mapping(pods=tuple(_pods(answer)), at_s=time.time())


def located(mapping: Mapping, devices: Iterable[Device]) -> tuple[list[tuple[str, Pod]], list[Pod]]:
    """Pairs of GPU and pod; and those whose device is none of this node's."""
    known = list(devices)
    found: list[tuple[str, Pod]] = []
    lost: list[Pod] = []
    for pod in mapping.pods:
        device = _device(pod.device_id, known)
        if device is None:
            lost.append(pod)
        else:
            found.append((device.uuid, pod))
    return found, lost


def _device(name: str, devices: list[Device]) -> Device | None:
    """GPU-UUID, MIG-UUID, `nvidia0`, `nvidia0/gi3` (GKE), `gpu-0` (DRA), each maybe `::2` shared."""
    bare = name.partition("::")[0]
    node = _DEVICE_NODE.fullmatch(bare)
    if node is None:
        claimed = _DRA_NAME.fullmatch(bare)
        return resolve(claimed[1] if claimed else bare, devices)
    minor, gi = int(node[1]), node[2]
    board = next((each for each in devices if each.minor == minor and not each.parent), None)
    if board is None or gi is None:
        return board
    return next(
        (each for each in devices if each.parent == board.uuid and each.gi == int(gi)), None
    )


def _pods(answer: Any) -> Iterator[Pod]:
    for pod in answer.pod_resources:
        for container in pod.containers:
            for device_id in _device_ids(container):
                yield Pod(
                    namespace=pod.namespace,
                    pod=pod.name,
                    container=container.name,
                    device_id=device_id,
                )


def _device_ids(container: Any) -> Iterator[str]:
    for devices in container.devices:
        if devices.resource_name.startswith(_OURS):
            yield from devices.device_ids
    for claim in container.dynamic_resources:
        for resource in claim.claim_resources:
            if resource.driver_name.startswith(_OURS):
                yield resource.device_name


_FIELDS: Final = {  # message: field name, number, message type or "" for text, repeated
    "Answer": (("pod_resources", 1, "Pod", True),),
    "Pod": (("name", 1, "", False), ("namespace", 2, "", False), ("containers", 3, "Box", True)),
    "Box": (
        ("name", 1, "", False),
        ("devices", 2, "Devices", True),
        ("dynamic_resources", 5, "Claim", True),
    ),
    "Devices": (("resource_name", 1, "", False), ("device_ids", 2, "", True)),
    "Claim": (("claim_resources", 4, "Claimed", True),),
    "Claimed": (("driver_name", 2, "", False), ("device_name", 4, "", False)),
}
"""What we read of kubelet's podresources/v1 api.proto; protobuf passes over the rest."""


@lru_cache(maxsize=1)
def _messages() -> dict[str, Any]:
    """Message classes made from the table: no generated code to keep in step."""
    from google.protobuf import (  # noqa: PLC0415 - only with a kubelet
        descriptor_pb2,
        descriptor_pool,
        message_factory,
    )

    file = descriptor_pb2.FileDescriptorProto(
        name="stagewatch/podresources.proto", package="stagewatch.podresources", syntax="proto3"
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            message.field.add(
                name=field,
                number=number,
                label=3 if repeated else 1,
                type=11 if kind else 9,
                type_name=f".stagewatch.podresources.{kind}" if kind else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"stagewatch.podresources.{name}")
        )
        for name in _FIELDS
    }
