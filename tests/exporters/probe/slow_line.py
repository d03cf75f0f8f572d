"""A network of its own with a slow resolver and a slow line, and probes through it.

Run by a test inside `unshare -nm`. The line is a TUN device: a packet to 10.9.0.2 comes out of it,
waits, and goes back in with its two addresses exchanged (their checksum stays right), so the
kernel at 10.9.0.1 talks TCP with itself over a line with a true round trip. The resolver is a DNS
server on 127.0.0.1:53 that takes its time. Prints what was measured and what was really planted.
"""

import fcntl
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

from tests.exporters.probe.asking import ask_again, target_of
from tests.exporters.probe.streaming_server import StreamingServer

ONE_WAY_S, DNS_S = 0.15, 0.3
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


def main():
    _shell("ip link set lo up")
    held_dns_s = []
    _resolver(held_dns_s)
    _line()
    certificate, key = sys.argv[1:]
    plan = {"first_token_s": 0.25, "gap_s": 0.04, "tokens": 6}
    with StreamingServer(host="10.9.0.1", certificate=certificate, key=key, **plan) as server:
        target = target_of(f"https://probe.test:{server.port}", ca_file=certificate)
        done = ask_again(5, target)
        truths = server.truth()
        near = target_of(f"https://10.9.0.1:{server.port}", ca_file=certificate)
        quick = ask_again(5, near)  # around the line: what the cryptography alone takes
    assert all(each.ok for each in done), [each.trouble for each in done]
    told = {
        "dns_s": [each.dns_s for each in done],
        "connect_s": [each.connect_s for each in done],
        "tls_s": [each.tls_s for each in done],
        "ttft_s": [each.ttft_s for each in done],
        "gap_s": [gap_s for each in done for gap_s in each.gaps_s],
        "quick_tls_s": [each.tls_s for each in quick],
        "round_trip_s": 2 * ONE_WAY_S,
        "held": {
            "dns_s": held_dns_s,
            "first_token_s": [(t["tokens"][0] - t["arrived"]) / 1e9 for t in truths],
            "gap_s": [
                (later - sooner) / 1e9 for t in truths for sooner, later in pairwise(t["tokens"])
            ],
        },
    }
    sys.stdout.write(json.dumps(told))
    sys.stdout.flush()
    os._exit(0)  # why: threads of the line and the resolver never end


def _resolver(held_s):
    """Answers A queries with the far end of the line, and AAAA with nothing, after a while."""
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write("nameserver 127.0.0.1\noptions timeout:5 attempts:1\n")
    _shell(f"mount --bind {file.name} {os.path.realpath('/etc/resolv.conf')}")
    Path(file.name).unlink()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 53))

    def answer(query, client):
        begun_s = time.perf_counter()
        time.sleep(DNS_S)
        name_ends = query.index(b"\0", 12) + 1
        question = query[12 : name_ends + 4]
        is_a = struct.unpack("!H", query[name_ends : name_ends + 2])[0] == 1
        record = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04" + bytes((10, 9, 0, 2)) if is_a else b""
        counts = struct.pack("!HHHH", 1, int(is_a), 0, 0)
        sock.sendto(query[:2] + b"\x81\x80" + counts + question + record, client)
        if is_a:
            held_s.append(time.perf_counter() - begun_s)

    def serve():
        while True:
            query, client = sock.recvfrom(4096)
            threading.Thread(target=answer, args=(query, client), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()


def _line():
    """Its own process, so that nothing else holds a packet up."""
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH14x", b"slow0", _IFF_TUN | _IFF_NO_PI))
    _shell("ip addr add 10.9.0.1/24 dev slow0")
    _shell("ip link set slow0 up")
    if os.fork():
        os.close(tun)
        return
    _carry(tun, os.getppid())


def _carry(tun, parent):
    waiting, selector = [], selectors.DefaultSelector()
    selector.register(tun, selectors.EVENT_READ)
    while os.getppid() == parent:
        wait_s = max(waiting[0][0] - time.monotonic(), 0) if waiting else 0.5
        # why a margin: a selector wakes up to a millisecond late, and turning for it costs little
        if selector.select(max(wait_s - 0.002, 0)):
            packet = os.read(tun, 65536)
            if packet[0] >> 4 == 4:
                swapped = packet[:12] + packet[16:20] + packet[12:16] + packet[20:]
                waiting.append((time.monotonic() + ONE_WAY_S, swapped))
        while waiting and waiting[0][0] <= time.monotonic():
            os.write(tun, waiting.pop(0)[1])
    os._exit(0)


def _shell(command):
    subprocess.run(command.split(), check=True)


if __name__ == "__main__":
    main()
