"""The real Helm, as a library (helm-sdkpy, Python 3.12 or newer), before a cluster that only listens.

Helm renders a chart when it installs it, and writes what it rendered into a Secret before it
makes anything. That Secret is caught here.
"""

import asyncio
import base64
import gzip
import importlib.util
import json
import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import yaml

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_KINDS = {
    "v1": {
        "configmaps": "ConfigMap",
        "namespaces": "Namespace",
        "secrets": "Secret",
        "serviceaccounts": "ServiceAccount",
        "services": "Service",
    },
    "apps/v1": {"daemonsets": "DaemonSet", "statefulsets": "StatefulSet"},
    "monitoring.coreos.com/v1": {"podmonitors": "PodMonitor", "servicemonitors": "ServiceMonitor"},
    "networking.k8s.io/v1": {"networkpolicies": "NetworkPolicy"},
}
_RELEASE = re.compile(rb"H4sI[A-Za-z0-9+/=]+")


def rendered(chart, values, *, release, namespace):
    """The objects that Helm makes of a chart."""
    if importlib.util.find_spec("helm_sdkpy") is None:
        pytest.skip(
            "helm-sdkpy wants Python 3.12 or newer; on 3.11 our own renderer stands in for Helm"
        )
    import helm_sdkpy

    async def install(url):
        configuration = helm_sdkpy.Configuration(namespace=namespace, kubeconfig=_access(url))
        with pytest.raises(helm_sdkpy.InstallError):  # the cluster makes nothing
            await helm_sdkpy.Install(configuration).run(
                release, str(chart), values=values, wait=False
            )

    with _listening() as (url, releases):
        asyncio.run(install(url))
    told = json.loads(gzip.decompress(base64.b64decode(releases[0])))
    return [each for each in yaml.safe_load_all(told["manifest"]) if each]


def _access(url):
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "c",
        }
    )


@contextmanager
def _listening():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Cluster)
    server.releases = []
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.releases
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _known(path):
    """What a cluster says about itself: which kinds it has."""
    if path == "/version":
        return {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        versions = [{"groupVersion": each, "version": "v1"} for each in _KINDS if "/" in each]
        groups = [
            {
                "name": each["groupVersion"].split("/")[0],
                "versions": [each],
                "preferredVersion": each,
            }
            for each in versions
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    version = path.removeprefix("/apis/").removeprefix("/api/")
    resources = [
        {
            "name": name,
            "singularName": "",
            "namespaced": kind != "Namespace",
            "kind": kind,
            "verbs": _VERBS,
        }
        for name, kind in _KINDS.get(version, {}).items()
    ]
    return (
        {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
        if resources
        else None
    )


class _Cluster(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.partition("?")[0]
        known = _known(path)
        if path.endswith("/secrets"):
            known = {"kind": "SecretList", "apiVersion": "v1", "metadata": {}, "items": []}
        self._answer(
            404 if known is None else 200,
            known or {"kind": "Status", "code": 404, "reason": "NotFound"},
        )

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.releases += [found[0]] if (found := _RELEASE.search(body)) else []
        self._answer(
            403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "only listens"}
        )

    def _answer(self, status, said):
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *arguments):  # noqa: A002 - the name there
        """Nobody reads it."""
