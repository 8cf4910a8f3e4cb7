# SPDX-License-Identifier: Apache-2.0
"""An HTTP service with real work in each request: a digest over many rounds. POST answers as an inference server."""
import hashlib, http.server, json, os, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *unused): pass
    def answer(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        if self.path == "/die": os._exit(3)
        if self.path == "/token": return self.answer((self.headers.get("Authorization") or "none").encode())
        if self.path == "/slow":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for number in range(5):
                piece = f"data: {number}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
            return
        if self.path.startswith("/big"): return self.answer(b"x" * (3 << 20), "application/octet-stream")
        digest = b"tranche"
        for _ in range(200): digest = hashlib.sha256(digest).digest()
        self.answer(json.dumps({"version": os.environ.get("V", "1"), "job": os.environ["TRANCHE_JOB"],
                                "digest": digest.hex()}).encode())
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(json.dumps({"length": len(body), "usage": {"prompt_tokens": 7, "completion_tokens": 5}}).encode())
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
