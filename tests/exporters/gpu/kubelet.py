"""A kubelet on a socket that says which pod has which device, encoded by hand: not by our table."""

from concurrent import futures
from contextlib import contextmanager

import grpc

__all__ = ["answer", "claimed", "container", "kubelet", "pod"]


def _part(number, content):
    data = content.encode() if isinstance(content, str) else content
    length, size = b"", len(data)
    while True:
        length += bytes([size & 0x7F | (0x80 if size > 0x7F else 0)])
        size >>= 7
        if not size:
            return bytes([number << 3 | 2]) + length + data


def container(name, *devices, resource="nvidia.com/gpu", claims=()):
    listed = _part(1, resource) + b"".join(_part(2, device) for device in devices)
    unread = _part(4, _part(1, "hugepages-2Mi"))  # a field that we do not know
    return _part(1, name) + _part(2, listed) + unread + b"".join(_part(5, one) for one in claims)


def claimed(driver, device):
    resource = _part(1, _part(1, f"{driver}/claim={device}")) + _part(2, driver) + _part(4, device)
    return _part(2, "claim") + _part(3, "inference") + _part(4, resource)


def pod(name, *containers, namespace="inference"):
    return _part(1, name) + _part(2, namespace) + b"".join(_part(3, one) for one in containers)


def answer(*pods):
    return b"".join(_part(1, one) for one in pods)


@contextmanager
def kubelet(path, reply):
    """`reply` makes the bytes of an answer, or raises."""

    def listed(_request, context):
        try:
            return reply()
        except RuntimeError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, str(error))

    handler = grpc.unary_unary_rpc_method_handler(listed)
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler}),)
    )
    server.add_insecure_port(f"unix://{path}")
    server.start()
    try:
        yield
    finally:
        server.stop(0).wait()
