# SPDX-License-Identifier: Apache-2.0
"""A link between an agent and its server that repeats and swaps messages. It speaks TLS to both ends: with a
certificate of the platform's own authority to the agent, and with the node's own key to the server."""
import random
import select
import socket
import ssl
import subprocess
import threading


def first_frame(data):
    """(One WebSocket frame as it is on the wire, whether it is a whole message of data), or nothing yet."""
    if len(data) < 2:
        return None
    at, length = 2, data[1] & 127
    if length >= 126:
        wide = 2 if length == 126 else 8
        if len(data) < at + wide:
            return None
        length = int.from_bytes(data[at:at + wide], "big")
        at += wide
    at += (4 if data[1] & 128 else 0) + length
    return (bytes(data[:at]), data[0] == 0x82) if len(data) >= at else None


class Direction:
    """What came from one end, and what waits for the other. The handshake passes as it is."""

    def __init__(self, source, sink, chance):
        self.source, self.sink, self.chance = source, sink, chance
        self.inbox, self.outbox, self.held, self.shaken = bytearray(), bytearray(), None, False

    def take(self):
        while True:
            try:
                piece = self.source.recv(65536)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not piece:
                raise ConnectionError("an end closed")
            self.inbox += piece

    def give(self):
        try:
            while self.outbox:
                del self.outbox[:self.sink.send(self.outbox)]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass

    def turn(self, proxy):
        if not self.shaken:
            end = self.inbox.find(b"\r\n\r\n")
            if end < 0:
                return
            self.outbox += self.inbox[:end + 4]
            del self.inbox[:end + 4]
            self.shaken = True
        while (found := first_frame(self.inbox)) is not None:
            frame, is_data = found
            del self.inbox[:len(frame)]
            proxy.counts["passed"] += 1
            if self.held is not None:  # The one before comes after this one.
                self.outbox += frame + self.held
                self.held = None
                proxy.counts["swapped"] += 1
            elif is_data and self.chance.random() < proxy.swap:
                self.held = frame
            else:
                again = is_data and self.chance.random() < proxy.repeat
                proxy.counts["repeated"] += again
                self.outbox += frame * (2 if again else 1)


class FaultProxy:
    """`repeat` and `swap` are chances in 0..1, for each message in each direction; the seed is printed on failure."""

    def __init__(self, folder, authority, server, node_files, repeat, swap, seed):
        self.server, self.node_files = server, node_files
        self.repeat, self.swap, self.seed = repeat, swap, seed
        self.counts = {"passed": 0, "repeated": 0, "swapped": 0, "links": 0}
        certificate, key = folder / "proxy.pem", folder / "proxy.key"
        make = ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                "-subj", "/CN=127.0.0.1", "-out", folder / "proxy.csr"]
        subprocess.run(make, check=True, capture_output=True)
        (folder / "proxy.ext").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
        subprocess.run(["openssl", "x509", "-req", "-in", folder / "proxy.csr", "-CA", authority[0], "-CAkey", authority[1],
                        "-CAcreateserial", "-CAserial", folder / "proxy.srl", "-days", "1", "-extfile", folder / "proxy.ext",
                        "-out", certificate], check=True, capture_output=True)
        self.front = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.front.load_cert_chain(certificate, key)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(plain,), daemon=True).start()

    def serve(self, plain):
        try:
            agent = self.front.wrap_socket(plain, server_side=True)
            back = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            back.check_hostname, back.verify_mode = False, ssl.CERT_NONE
            back.load_cert_chain(*self.node_files)
            server = back.wrap_socket(socket.create_connection(("127.0.0.1", self.server)))
        except OSError:
            plain.close()
            return
        self.counts["links"] += 1
        number = self.counts["links"]
        both = [Direction(agent, server, random.Random(f"{self.seed} {number} up")),
                Direction(server, agent, random.Random(f"{self.seed} {number} down"))]
        for end in (agent, server):
            end.setblocking(False)
        try:
            while self.listener.fileno() >= 0:
                writers = [one.sink for one in both if one.outbox]
                select.select([agent, server], writers, [], 0.2)
                for one in both:
                    one.take()
                    one.turn(self)
                    one.give()
        except (OSError, ConnectionError, ValueError):
            pass
        for end in (agent, server):
            end.close()

    def close(self):
        self.listener.close()
