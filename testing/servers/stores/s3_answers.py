"""A store that answers each request with one of S3's errors, for tests: what the real ones say of rights and of tokens
that no server on this machine has.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from webapp.embedded.ports import LOOPBACK, free_port
from webapp.embedded.processes import claim

BODY = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>{}</Message></Error>'
EMPTY = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<Name>bucket</Name><Prefix/><KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>"
    "</ListBucketResult>"
)
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
ERRORS = {
    "AccessDenied": (403, "Access Denied"),
    "ExpiredToken": (400, "The provided token has expired."),
    "InvalidAccessKeyId": (403, "The AWS access key ID you provided does not exist in our records."),
    "NoSuchBucket": (404, "The specified bucket does not exist"),
    "NoSuchKey": (404, "The specified key does not exist."),
    "SlowDown": (503, "Please reduce your request rate."),
}


class S3Answers:
    """On loopback; `answers` gives a method the code of its error, and may be changed at any time."""

    url = "s3://bucket"

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.port = free_port()
        self.answers = dict(answers)

    @property
    def endpoint(self) -> str:
        """The endpoint for clients."""
        return f"http://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """Returns when it listens."""
        answers, empty = self.answers, EMPTY.encode()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                code = answers[self.command]
                status, text = ERRORS[code]
                body = b"" if self.command == "HEAD" else BODY.format(code, text).encode()
                if code == "NoSuchKey" and self.command == "GET" and "list-type=2" in self.path:
                    status, body = 200, empty
                self.send_response(status)
                self.send_header("Content-Type", "application/xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - so the library wants them

            def log_message(self, *_: object) -> None:
                """Nothing."""

        claim(self.port)
        self._server = ThreadingHTTPServer((LOOPBACK, self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True, name="s3-answers").start()

    def stop(self) -> None:
        """Stop the server and close its port."""
        self._server.shutdown()
        self._server.server_close()
