"""A real Alertmanager in a process of its own, which tells a listener on loopback."""

import json
import shutil
import socket
import subprocess
import time

import httpx

__all__ = ["BINARY", "AlertmanagerProcess"]

BINARY = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")


class AlertmanagerProcess:
    """Alertmanager as Debian ships it, with one route to `webhook`."""

    def __init__(self, folder, webhook):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        config = folder / "alertmanager.json"
        route = {
            "receiver": "listener",
            "group_by": ["alertname", "severity"],
            "group_wait": "0s",
            "group_interval": "1s",
        }
        hook = {"url": webhook, "send_resolved": True}
        receivers = [{"name": "listener", "webhook_configs": [hook]}]
        config.write_text(json.dumps({"route": route, "receivers": receivers}))
        self._command = [BINARY, f"--config.file={config}", f"--storage.path={folder / 'data'}"]
        self._command += [f"--web.listen-address={self.url.removeprefix('http://')}"]
        self._command += ["--cluster.listen-address="]

    def __enter__(self):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(self._command, **quiet)
        until_s = time.monotonic() + 20
        while time.monotonic() < until_s:
            try:
                if httpx.get(f"{self.url}/-/ready", timeout=2).status_code == 200:
                    return self
            except httpx.HTTPError:
                time.sleep(0.05)
        raise AssertionError("Alertmanager does not get ready")

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(10)

    def alerts(self):
        """What it holds active now."""
        return httpx.get(f"{self.url}/api/v2/alerts", timeout=5).json()
