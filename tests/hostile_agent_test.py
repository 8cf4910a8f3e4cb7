# SPDX-License-Identifier: Apache-2.0
"""Who is no node gets no link, and an invitation is worth one join of one name (rows S11 and S12 of the table of attacks).
What a node that lies can do is src/engine/hostile_node_test.cpp; what TLS takes is src/net/tls_test.cpp."""
import base64
import http.client
import json
import os
import socket
import ssl
import subprocess

from node_test import Agent, Site
from tranche_platform import main


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def agents_port(site):
    return int(site.platform.arguments[1].rsplit(":", 1)[1])


def context_with(identity=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if identity:
        context.load_cert_chain(*identity)
    return context


def upgrade(site, identity=None):
    """The status with which a link is answered; nothing: the connection was ended instead."""
    key = base64.b64encode(os.urandom(16)).decode()
    try:
        with socket.create_connection(("127.0.0.1", agents_port(site)), timeout=60) as plain, \
                context_with(identity).wrap_socket(plain) as link:
            link.sendall((f"GET /v1/agent/link HTTP/1.1\r\nHost: tranche\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                          f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
            words = link.recv(4096).decode(errors="replace").split()
            return int(words[1]) if len(words) > 1 else None
    except (ssl.SSLError, ConnectionError):
        return None


def join(site, name, token, request="none"):
    connection = http.client.HTTPSConnection("127.0.0.1", agents_port(site), timeout=60, context=context_with())
    connection.request("POST", "/v1/nodes/join", json.dumps({"name": name, "token": token, "certificate_request": request}))
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def without_a_good_certificate_there_is_no_link():
    """None, one of another authority for the very same node, ours of nobody, and that of a node that was removed."""
    with Site(devices=False) as site:
        agent = site.agent()
        node, tls = site.node("here")["id"], site.platform.data / "tls"
        own = (agent.data / "node.pem", agent.data / "node.key")
        assert upgrade(site, own) == 101, "the node's own certificate opens a link"
        assert upgrade(site) in (None, 401)
        foreign = (site.platform.folder / "foreign.pem", site.platform.folder / "foreign.key")
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={node}",
                "-keyout", foreign[1], "-out", foreign[0])
        assert upgrade(site, foreign) in (None, 401)
        nobody = [site.platform.folder / f"nobody.{kind}" for kind in ("pem", "key", "csr")]
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=nobody", "-keyout", nobody[1], "-out", nobody[2])
        openssl("x509", "-req", "-in", nobody[2], "-CA", tls / "ca.pem", "-CAkey", tls / "ca.key", "-CAcreateserial",
                "-days", "1", "-out", nobody[0])
        assert upgrade(site, nobody[:2]) in (None, 403)
        agent.stop()
        assert site.operator.call("DELETE", "/v1/nodes/here").status in (200, 204)
        agent.start()
        site.until(lambda: "the server parts: identity" in agent.log_text(), agent.log_text)
        assert not [one for one in site.operator.get("/v1/nodes").json["items"] if one["connected"]]


def an_invitation_is_for_one_join_of_one_name():
    """For another name it is worth nothing, and nothing after it was used; each such try is in the audit."""
    with Site(devices=False) as site:
        one, two = Agent(site, "one"), Agent(site, "two")
        assert join(site, "two", one.invite["token"]) == 403
        site.agents.append(one)
        one.start("--drain-on-exit")
        site.until(lambda: site.node("one")["connected"], one.log_text)
        assert join(site, "one", one.invite["token"]) == 403
        assert site.node("two")["state"] == "joining"
        denials = [entry for entry in site.operator.get("/v1/audit?limit=200").json["items"] if "join" in json.dumps(entry)
                   and "not one of ours" in json.dumps(entry)]
        assert len(denials) == 2, denials
        site.agents.append(two)
        two.start("--drain-on-exit")  # What was tried with it did not use it up.
        site.until(lambda: site.node("two")["connected"], two.log_text)


def guessing_invitations_is_limited():
    """After ten wrong ones nobody from there is listened to for a minute, not even with the right one."""
    with Site(devices=False) as site:
        invited = Agent(site, "here")
        answers = [join(site, "here", f"guess-{i}") for i in range(12)]
        assert answers == [403] * 10 + [429] * 2, answers
        assert join(site, "here", invited.invite["token"]) == 429
        assert site.node("here")["state"] == "joining"


def varint(value):
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def record(*fields):
    """A struct as it travels: its length, then its fields in their order; numbers as varints, texts with their length."""
    body = b"".join(varint(len(field)) + field if isinstance(field, bytes) else varint(field) for field in fields)
    return varint(len(body)) + body


def read_varint(data):
    value = shift = 0
    for used, byte in enumerate(data, 1):
        value, shift = value | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            return value, data[used:]
    raise ValueError("cut short")


HELLO, WELCOME, PARTING = 1, 2, 3


def greeted(site, identity, hello):
    """Says one hello as the node; the kind and the body of the frame that answers."""
    key = base64.b64encode(os.urandom(16)).decode()
    with socket.create_connection(("127.0.0.1", agents_port(site)), timeout=60) as plain, \
            context_with(identity).wrap_socket(plain) as link:
        link.sendall((f"GET /v1/agent/link HTTP/1.1\r\nHost: tranche\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                      f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
        stream = link.makefile("rb")
        while stream.readline().strip():
            pass
        frame = record(1, 0, 0, HELLO, hello)
        assert len(frame) < 126
        link.sendall(bytes([0x82, 0x80 | len(frame), 0, 0, 0, 0]) + frame)  # Masked with zeros.
        head = stream.read(2)
        length = head[1] if head[1] < 126 else int.from_bytes(stream.read(2), "big")
        _, fields = read_varint(stream.read(length))
        for _ in range(3):  # Version, sequence, acknowledged.
            _, fields = read_varint(fields)
        kind, body = read_varint(fields)
        return kind, body


def an_agent_of_another_version_is_served_or_refused():
    """One that speaks a version of ours too is served, whatever it says beyond; one that speaks none is told so."""
    with Site(devices=False) as site:
        agent = site.agent()
        agent.stop()
        own = (agent.data / "node.pem", agent.data / "node.key")
        known = (b"newer", b"here", b"boot", 0, 2, 0, 0, 0, 0, 0, 0)
        kind, body = greeted(site, own, record(90, 99, *known))
        assert kind == PARTING and b"version" in body and b"this server speaks versions 1 to " in body, (kind, body)
        # Of a later version: more in its hello than this server knows, and a version of this server in its range.
        kind, body = greeted(site, own, record(1, 99, *known, record(0), b"a field of later days", 7))
        assert kind == WELCOME, (kind, body)
        # Of an earlier one: it ends before what was added since.
        kind, body = greeted(site, own, record(1, 1, b"older", b"here", b"boot"))
        assert kind == WELCOME, (kind, body)
        kind, body = greeted(site, own, b"\xff\xff\xff not a record")
        assert kind == PARTING and b"protocol" in body, (kind, body)
        agent.start("--drain-on-exit")
        site.until(lambda: site.node("here")["connected"], agent.log_text)


LIFE = 6  # Seconds that a certificate lasts here.


def certificates_are_short_and_renew_themselves():
    """A link outlives its certificates; the one of before opens nothing once it has run out, though it was good."""
    with Site(devices=False, more=("--certificate-life", f"{LIFE}s")) as site:
        agent = site.agent()
        old = [site.platform.folder / f"old.{kind}" for kind in ("pem", "key")]
        for kept, file in zip(old, ("node.pem", "node.key")):
            kept.write_bytes((agent.data / file).read_bytes())
        assert upgrade(site, old) == 101
        first = old[0].read_bytes()
        site.until(lambda: (agent.data / "node.pem").read_bytes() != first, agent.log_text)
        second = (agent.data / "node.pem").read_bytes()
        site.until(lambda: (agent.data / "node.pem").read_bytes() != second, agent.log_text)
        site.until(lambda: upgrade(site, old) in (None, 401))
        site.until(lambda: upgrade(site, (agent.data / "node.pem", agent.data / "node.key")) == 101)
        agent.stop()
        agent.start("--drain-on-exit")
        site.until(lambda: agent.log_text().count("connected as") >= 2, agent.log_text)


def a_node_that_was_off_for_long_is_let_in_again_as_itself():
    """Its certificate has run out: it says what to do, and with a new invitation it is the node it was."""
    with Site(devices=False, lease="2s", more=("--certificate-life", f"{LIFE}s")) as site:
        agent = site.agent()
        node = site.node("here")["id"]
        assert site.operator.call("PATCH", "/v1/nodes/here", {"labels": {"rack": "7"}}).status == 200
        agent.stop()
        site.until(lambda: upgrade(site, (agent.data / "node.pem", agent.data / "node.key")) in (None, 401))
        agent.start()
        assert agent.process.wait(60) != 0
        assert "ran out" in agent.log_text() and "tranche node add here" in agent.log_text(), agent.log_text()
        site.until(lambda: site.node("here")["state"] == "lost")
        invite = site.operator.post("/v1/nodes", {"name": "here"})
        assert invite.status == 201, invite
        agent.start("--drain-on-exit", "--token", invite.json["token"], "--ca-pin", invite.json["ca_pin"])
        site.until(lambda: site.node("here")["connected"], agent.log_text)
        assert site.node("here")["id"] == node and site.node("here")["labels"] == {"rack": "7"}, site.node("here")


def a_platform_that_was_off_for_long_starts_with_its_node():
    """`tranche up` after its own node's certificate has run out: nobody has to let the machine in again."""
    with Site(devices=False, command="up", more=("--certificate-life", f"{LIFE}s")) as site:
        def here():
            nodes = site.operator.get("/v1/nodes").json["items"]
            return nodes[0] if nodes and nodes[0]["connected"] else None

        site.until(here, site.platform.log_text)
        node, files = here()["id"], site.platform.data / "agent"
        site.platform.stop()
        site.until(lambda: subprocess.run(["openssl", "x509", "-noout", "-checkend", "0", "-in", files / "node.pem"],
                                          stdout=subprocess.DEVNULL, check=False).returncode != 0)
        site.restart()
        site.until(here, site.platform.log_text)
        assert here()["id"] == node, here()


if __name__ == "__main__":
    main([an_agent_of_another_version_is_served_or_refused, certificates_are_short_and_renew_themselves,
          a_node_that_was_off_for_long_is_let_in_again_as_itself, a_platform_that_was_off_for_long_starts_with_its_node,
          without_a_good_certificate_there_is_no_link, an_invitation_is_for_one_join_of_one_name, guessing_invitations_is_limited])
