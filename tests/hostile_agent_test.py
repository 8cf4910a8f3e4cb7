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


if __name__ == "__main__":
    main([without_a_good_certificate_there_is_no_link, an_invitation_is_for_one_join_of_one_name,
          guessing_invitations_is_limited])
