"""The loopback server: what botocore really sends is answered as AWS would answer it.

CloudWatch speaks AWS JSON 1.0, SageMaker's control plane JSON 1.1, the runtimes event streams, and
CloudWatch's PromQL endpoint forms in and JSON out.
"""

import json
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from tests.fake_cloudwatch import control, event_stream
from tests.fake_cloudwatch.account import Account, AwsError
from tests.fake_cloudwatch.metric_data import get_metric_data, list_metrics

__all__ = ["fake_cloudwatch"]

_OPERATIONS = {
    "GraniteServiceVersion20100801.GetMetricData": get_metric_data,
    "GraniteServiceVersion20100801.ListMetrics": list_metrics,
    "SageMaker.DescribeEndpoint": control.describe_endpoint,
    "SageMaker.DescribeEndpointConfig": control.describe_configuration,
    "SageMaker.ListEndpoints": control.list_endpoints,
    "SageMaker.ListInferenceComponents": control.list_components,
}
_ASSUMED = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleResult><Credentials><AccessKeyId>ASSUMED{n}</AccessKeyId>
<SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken>
<Expiration>{ends}</Expiration></Credentials>
<AssumedRoleUser><AssumedRoleId>A:stagewatch</AssumedRoleId>
<Arn>arn:aws:sts::111122223333:assumed-role/reader/stagewatch</Arn></AssumedRoleUser>
</AssumeRoleResult></AssumeRoleResponse>"""
_STREAMS = {
    "converse-stream": event_stream.converse,
    "invocations-response-stream": event_stream.response_stream,
}


@contextmanager
def fake_cloudwatch(**settings):
    """`.url` and `.account` of a server that runs until the end of the block."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.account = Account(**settings)
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # why: head and body in one segment, or loopback waits 40 ms for an ack
    disable_nagle_algorithm = True

    def log_message(self, *_):
        """Say nothing: the account remembers all calls."""

    def do_POST(self):
        account = self.server.account
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        target = self.headers.get("X-Amz-Target", "")
        told = self.headers.get("Content-Type"), self.headers.get("Authorization", "")
        account.requests.append((target, *told))
        last = self.path.rpartition("/")[2]
        if last in _STREAMS:
            self._stream(_STREAMS[last](account))
        elif self.headers.get("Content-Type", "").startswith("application/x-www-form") and (
            b"Action=AssumeRole" in body
        ):
            self._assume_role(account, parse_qs(body.decode()))
        elif self.path.startswith("/api/v1/query"):
            self._prometheus(account, parse_qs(body.decode()))
        else:
            self._operation(account, target, json.loads(body))

    def _operation(self, account, target, body):
        name = target.partition(".")[2]
        try:
            account.admit(body)
            answer = _OPERATIONS[target](account, body)
        except AwsError as error:
            account.calls.append((name, body, error.code))
            told = {"__type": f"com.amazonaws.cloudwatch#{error.code}", "message": error.message}
            header = {"x-amzn-query-error": f"{error.code};Sender"}
            self._json(error.status, told, header)
        else:
            account.calls.append((name, body, "ok"))
            self._json(200, answer)

    def _assume_role(self, account, form):
        """STS still speaks Query/XML. Credentials end in an hour of the real clock."""
        account.calls.append(("AssumeRole", {name: told[0] for name, told in form.items()}, "ok"))
        ends = datetime.now(UTC) + timedelta(hours=1)
        body = _ASSUMED.format(ends=ends.strftime("%Y-%m-%dT%H:%M:%SZ"), n=len(account.calls))
        self._answer(200, "text/xml", body.encode())

    def _prometheus(self, account, form):
        (query,) = form["query"]
        account.calls.append(("PromQL", {name: value[0] for name, value in form.items()}, "ok"))
        if not self.headers.get("Authorization", "").startswith("AWS4-HMAC-SHA256 "):
            self._json(403, {"status": "error", "errorType": "forbidden", "error": "not signed"})
        elif query in account.prometheus:
            self._json(*account.prometheus[query])
        else:
            empty = {"resultType": "matrix", "result": []}
            self._json(200, {"status": "success", "data": empty})

    def _json(self, status, told, headers=()):
        body = json.dumps(told).encode()
        self._answer(status, "application/x-amz-json-1.0", body, headers)

    def _answer(self, status, content_type, body, headers=()):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _stream(self, frames):
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.amazon.eventstream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for each in frames:
            self.wfile.write(b"%x\r\n" % len(each) + each + b"\r\n")
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
