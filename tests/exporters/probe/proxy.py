"""A real nginx in front of a server: with its own configuration in a folder of its own."""

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager

import pytest

__all__ = ["nginx"]

_CONFIGURATION = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {upstream}; {settings} }}
  }}
}}
"""


@contextmanager
def nginx(folder, upstream, settings):
    """Its address, once it answers; `settings` are nginx's own, for the one location."""
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed; Debian: apt-get install nginx-light")
    folder.mkdir(exist_ok=True)
    port = _free_port()
    told = _CONFIGURATION.format(folder=folder, port=port, upstream=upstream, settings=settings)
    (folder / "nginx.conf").write_text(told)
    command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    command += ["-e", str(folder / "error.log")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        _until_it_listens(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def _until_it_listens(port, process):
    until_s = time.monotonic() + 10
    while time.monotonic() < until_s:
        assert process.poll() is None, "nginx ended at once"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("nginx does not listen")
