# SPDX-License-Identifier: Apache-2.0
"""Every route x every role x own, sibling's, other unit's, other tenant's and missing objects.

The routes come from the server's own OpenAPI document: one without a row here fails. What is expected comes from
the table of roles below, written down independently of the server.
"""
import json

from tranche_platform import JOB, Client, Platform, main, make_user

ADMIN = {"view", "view_job", "audit", "billing", "submit", "stop", "manage", "grant", "quota", "rules", "token", "capacity"}
ALLOWS = {
    "platform_owner": ADMIN | {"platform"},
    "tenant_admin": ADMIN,
    "subscriber_admin": ADMIN,
    "member": {"submit"},
    "viewer": {"view", "view_job"},
    "auditor": {"view", "view_job", "audit"},
    "billing": {"view", "billing"},
    "capacity_owner": {"view", "capacity"},
}
OWN = {"view", "view_job", "stop", "token"}  # What everyone may do with himself.
PUBLIC = {"healthz", "readyz", "openapi", "job_schema", "login", "join_node"}
ANYONE = {"whoami", "ping", "list_skus", "show_settings", "list_roles", "list_tenants", "list_subscribers", "list_users",
          "list_service_accounts", "list_jobs", "follow_events", "follow_market", "show_earnings", "list_nodes", "list_devices", "list_books", "show_depth", "list_fills", "quote",
          "list_orders", "list_contracts", "list_recurring_listings", "show_market_rules", "list_prices", "list_bookings", "booking_feed",
          "health_board", "list_repairs", "reconcile", "list_volumes", "top", "list_telemetry",
          "search_logs", "list_services", "list_recurring", "list_levels",
          "forecast_demand", "forecast_accuracy", "list_tax_rates"}  # Lists show what one may see; tested for leaks.

# operationId -> (right needed, at whose node, request for a target)
TARGETED = {
    "show_user": ("see", "party", lambda t: ("GET", f"/v1/users/{t.id}", None)),
    "show_subscriber": ("see", "unit", lambda t: ("GET", f"/v1/subscribers/{t.id}", None)),
    "show_tenant": ("see", "tenant", lambda t: ("GET", f"/v1/tenants/{t.id}", None)),
    "show_service_account": ("see", "service", lambda t: ("GET", f"/v1/service-accounts/{t.id}", None)),
    "change_user": ("manage", "party", lambda t: ("PATCH", f"/v1/users/{t.id}", {"time_zone": "UTC"})),
    "change_subscriber": ("manage", "unit", lambda t: ("PATCH", f"/v1/subscribers/{t.id}", {"time_zone": "UTC"})),
    "change_tenant": ("manage", "tenant", lambda t: ("PATCH", f"/v1/tenants/{t.id}", {"time_zone": "UTC"})),
    "change_service_account": ("manage", "service", lambda t: ("PATCH", f"/v1/service-accounts/{t.id}", {"time_zone": "UTC"})),
    "create_user": ("manage", "unit", lambda t: ("POST", "/v1/users", {"name": "!", "parent": t.id})),
    "create_service_account": ("manage", "unit", lambda t: ("POST", "/v1/service-accounts", {"name": "!", "parent": t.id})),
    "create_subscriber": ("manage", "unit", lambda t: ("POST", "/v1/subscribers", {"name": "!", "parent": t.id})),
    "set_password": ("manage_or_self", "party", lambda t: ("PUT", f"/v1/users/{t.id}/password", {"password": "x" * 14})),
    "show_quota": ("see", "unit", lambda t: ("GET", f"/v1/quotas/{t.id}", None)),
    "set_quota": ("quota_above", "unit", lambda t: ("PUT", f"/v1/quotas/{t.id}", {})),
    "show_rules": ("see", "unit", lambda t: ("GET", f"/v1/rules/{t.id}", None)),
    "set_rules": ("rules", "unit", lambda t: ("PUT", f"/v1/rules/{t.id}", {"rules": []})),
    "grant_role": ("grant", "unit", lambda t: ("POST", "/v1/roles", {"at": t.id, "holder": t.holder, "role": "viewer"})),
    "revoke_role": ("grant", "unit", lambda t: ("DELETE", f"/v1/roles?at={t.id}&holder={t.holder}&role=billing", None)),
    "list_tokens": ("token_or_404", "party", lambda t: ("GET", f"/v1/tokens?party={t.id}", None)),
    "issue_token": ("token", "party", lambda t: ("POST", "/v1/tokens", {"party": t.id, "scope": "read"})),
    "revoke_token": ("token_or_404", "token", lambda t: ("DELETE", f"/v1/tokens/{t.id}", None)),
    "submit_job": ("submit", "party", lambda t: ("POST", f"/v1/jobs?dry_run=true&owner={t.id}", JOB)),
    "show_job": ("job", "job", lambda t: ("GET", f"/v1/jobs/{t.id}", None)),
    "stop_job": ("stop_job", "job", lambda t: ("POST", f"/v1/jobs/{t.id}/stop", {})),
    "pause_job": ("stop_job", "job", lambda t: ("POST", f"/v1/jobs/{t.id}/pause", {})),
    "resume_job": ("stop_job", "job", lambda t: ("POST", f"/v1/jobs/{t.id}/resume", {})),
    "release_job": ("stop_job", "job", lambda t: ("POST", f"/v1/jobs/{t.id}/release", {})),
    "job_why": ("job", "job", lambda t: ("GET", f"/v1/jobs/{t.id}/why", None)),
    "job_logs": ("job", "job", lambda t: ("GET", f"/v1/jobs/{t.id}/logs", None)),
    "exec_in_job": ("stop_job", "job", lambda t: ("GET", f"/v1/jobs/{t.id}/exec", None)),
    "add_node": ("capacity", "unit", lambda t: ("POST", "/v1/nodes", {"name": "!", "owner": t.id})),
    "show_node": ("see", "node", lambda t: ("GET", f"/v1/nodes/{t.id}", None)),
    "change_node": ("capacity", "node", lambda t: ("PATCH", f"/v1/nodes/{t.id}", {"cordoned": True})),
    "remove_node": ("capacity", "node", lambda t: ("DELETE", f"/v1/nodes/{t.id}", None)),
    "book": ("submit", "party", lambda t: ("POST", "/v1/bookings", {"gpus": "H100", "from": "in 1h", "length": "1h",
                                                                    "owner": t.id})),
    "show_booking": ("job", "booking", lambda t: ("GET", f"/v1/bookings/{t.id}", None)),
    "booking_calendar": ("job", "booking", lambda t: ("GET", f"/v1/bookings/{t.id}/ics", None)),
    "cancel_booking": ("stop_job", "booking", lambda t: ("DELETE", f"/v1/bookings/{t.id}", None)),
    "plan_maintenance": ("capacity", "node", lambda t: ("POST", "/v1/maintenance", {"node": t.id, "from": "in 1h", "length": "1h"})),
    "create_tenant": ("manage", "root", lambda t: ("POST", "/v1/tenants", {"name": "!"})),
    "forecast_layouts": ("capacity", "root", lambda t: ("GET", "/v1/forecast/layouts", None)),
    "set_sku": ("platform", "root", lambda t: ("PUT", "/v1/skus/small", {"gpu_milli": 250})),
    "change_settings": ("platform", "root", lambda t: ("PUT", "/v1/settings", {})),
    "metrics": ("view", "root", lambda t: ("GET", "/metrics", None)),
    "metrics_of_simulated": ("view", "root", lambda t: ("GET", "/metrics/sim", None)),
    "list_audit": ("audits", "root", lambda t: ("GET", "/v1/audit", None)),
    "verify_audit": ("audits", "root", lambda t: ("GET", "/v1/audit/verify", None)),
    "export_audit": ("audit", "root", lambda t: ("GET", "/v1/audit/export", None)),
    "show_account": ("billing", "unit", lambda t: ("GET", f"/v1/accounts/{t.id}", None)),
    "top_up": ("platform", "unit", lambda t: ("POST", f"/v1/accounts/{t.id}/top-up", {"amount": "1"})),
    "set_overdraft": ("platform", "unit", lambda t: ("PUT", f"/v1/accounts/{t.id}/overdraft", {"overdraft": "1"})),
    "set_prices": ("platform", "root", lambda t: ("PUT", "/v1/prices", {"name": "list", "rules": [{"name": "all"}]})),
    "set_owe_limit": ("platform", "unit", lambda t: ("PUT", f"/v1/accounts/{t.id}/owe-limit", {"limit": "1000000"})),
    "list_ledger_accounts": ("platform", "root", lambda t: ("GET", "/v1/ledger/accounts", None)),
    "list_postings": ("platform", "root", lambda t: ("GET", "/v1/ledger/postings", None)),
    "post_entry": ("platform", "root", lambda t: ("POST", "/v1/ledger/postings", {
        "memo": "canary", "legs": [{"party": "acme/red", "amount": "1"}, {"party": "nobody", "amount": "-1"}]})),
    "reverse_posting": ("platform_missing", "root", lambda t: ("POST", "/v1/ledger/postings/pst_00ZZZZ/reverse", {"memo": "x"})),
    "list_holds": ("platform", "root", lambda t: ("GET", "/v1/ledger/holds", None)),
    "place_hold": ("platform", "unit", lambda t: ("POST", "/v1/ledger/holds", {"party": t.id, "amount": "1"})),
    "end_hold": ("platform_missing", "root", lambda t: ("POST", "/v1/ledger/holds/hold_00ZZZZ/end", {})),
    "set_tax_rate": ("platform", "root", lambda t: ("PUT", "/v1/taxes/rates", {"country": "ES", "rate_ppm": 210000})),
    "show_tax_report": ("platform", "root", lambda t: ("GET", "/v1/taxes/report", None)),
    "show_tax_profile": ("billing", "unit", lambda t: ("GET", f"/v1/taxes/parties/{t.id}", None)),
    "set_tax_profile": ("platform", "unit", lambda t: ("PUT", f"/v1/taxes/parties/{t.id}", {"country": "ES"})),
    "keep_quote": ("submit", "party", lambda t: ("POST", "/v1/market/quotes", {
        "party": t.id, "instrument": {"model": "H100"}, "milli": 1, "length": "15m", "hourly": "1"})),
    "show_quote": ("nobody", "root", lambda t: ("GET", "/v1/market/quotes/quo_00ZZZZ", None)),
    "take_quote": ("nobody", "root", lambda t: ("POST", "/v1/market/quotes/quo_00ZZZZ/take", {})),
    "drop_quote": ("nobody", "root", lambda t: ("DELETE", "/v1/market/quotes/quo_00ZZZZ", None)),
    "show_candles": ("nobody", "root", lambda t: ("GET", "/v1/market/books/99/candles", None)),
    "reclaim_contract": ("nobody", "root", lambda t: ("POST", "/v1/market/contracts/ctr_00ZZZZ/reclaim", {})),
    "release_contract": ("nobody", "root", lambda t: ("POST", "/v1/market/contracts/ctr_00ZZZZ/release", {})),
    "list_capacity_costs": ("platform", "root", lambda t: ("GET", "/v1/capacity-costs", None)),
    "set_capacity_cost": ("platform", "root", lambda t: ("PUT", "/v1/capacity-costs", {})),
    "show_margin": ("platform", "root", lambda t: ("GET", "/v1/margin", None)),
    "show_costs": ("billing", "unit", lambda t: ("GET", f"/v1/costs/{t.id}", None)),
    "export_focus": ("billing", "unit", lambda t: ("GET", f"/v1/costs/{t.id}/focus", None)),
    "list_invoices": ("billing", "unit", lambda t: ("GET", f"/v1/invoices/{t.id}", None)),
    "show_invoice": ("billing", "unit", lambda t: ("GET", f"/v1/invoices/{t.id}/current", None)),
    "show_credit_note": ("nobody", "root", lambda t: ("GET", "/v1/invoices/ten_00ZZZZ/2026-01/credits/1", None)),
    "credit_invoice": ("platform", "unit", lambda t: ("POST", f"/v1/invoices/{t.id}/2026-01/credits", {
        "amount": "1", "reason": "canary"})),
    "set_market_rules": ("platform", "root", lambda t: ("PUT", "/v1/market/rules", {})),
    "certify_capacity": ("platform", "root", lambda t: ("PUT", "/v1/market/devices",
                                                        {"device": "gpu_000001", "owner": "platform", "model": "H100"})),
    "place_order": ("submit", "party", lambda t: ("POST", "/v1/market/orders", {
        "party": t.id, "instrument": {"model": "H100"}, "milli": 1, "length": "15m", "hourly": "1"})),
    "list_capacity": ("capacity", "party", lambda t: ("POST", "/v1/market/listings", {
        "owner": t.id, "device": "gpu_000001", "milli": 0, "length": "15m", "hourly": "1"})),
    "set_recurring_listing": ("capacity", "party", lambda t: ("POST", "/v1/market/recurring", {
        "listing": {"owner": t.id, "device": "gpu_000001", "milli": 0, "length": "15m", "hourly": "1"},
        "every": "day 22:00", "zone": "UTC"})),
    "remove_recurring_listing": ("nobody", "root", lambda t: ("DELETE", "/v1/market/recurring/lst_00ZZZZ", None)),
    "cancel_order": ("nobody", "root", lambda t: ("DELETE", "/v1/market/orders/ord_00ZZZZ", None)),
    "interrupt_contract": ("nobody", "root", lambda t: ("POST", "/v1/market/contracts/ctr_00ZZZZ/interrupt", {})),
    "job_receipts": ("job", "job", lambda t: ("GET", f"/v1/jobs/{t.id}/receipts", None)),
    "show_node_test": ("capacity", "node", lambda t: ("GET", f"/v1/nodes/{t.id}/test", None)),
    "test_node": ("capacity", "node", lambda t: ("POST", f"/v1/nodes/{t.id}/test", {})),
    "show_health_policy": ("platform", "root", lambda t: ("GET", "/v1/health/policy", None)),
    "set_health_policy": ("platform", "root", lambda t: ("PUT", "/v1/health/policy", {})),
    "set_breaker": ("platform", "root", lambda t: ("PUT", "/v1/health/breaker", {})),
    "show_repair": ("nobody", "root", lambda t: ("GET", "/v1/repairs/rep_999999", None)),
    "accept_repair": ("nobody", "root", lambda t: ("POST", "/v1/repairs/rep_999999/accept", {})),
    "dismiss_repair": ("nobody", "root", lambda t: ("POST", "/v1/repairs/rep_999999/dismiss", {})),
    "return_repair": ("nobody", "root", lambda t: ("POST", "/v1/repairs/rep_999999/return", {})),
    "retire_repair": ("nobody", "root", lambda t: ("POST", "/v1/repairs/rep_999999/retire", {"note": "canary"})),
    "open_repair": ("nobody", "root", lambda t: ("POST", "/v1/repairs", {"device": "gpu_00ZZZZ", "reason": "canary"})),
    "job_behaviour": ("job", "job", lambda t: ("GET", f"/v1/jobs/{t.id}/behaviour", None)),
    "create_volume": ("submit", "unit", lambda t: ("POST", "/v1/volumes", {"name": "!", "size": 1, "owner": t.id})),
    "show_volume": ("volume", "volume", lambda t: ("GET", f"/v1/volumes/{t.id}", None)),
    "snapshot_volume": ("volume_change", "volume", lambda t: ("POST", f"/v1/volumes/{t.id}/snapshot", {"name": "copy"})),
    "remove_volume": ("volume_change", "volume", lambda t: ("DELETE", f"/v1/volumes/{t.id}", None)),
    "show_workdir": ("submit", "party", lambda t: ("GET", f"/v1/workdirs/sha256:{'0' * 64}?owner={t.id}", None)),
    "put_workdir": ("submit", "party", lambda t: ("PUT", f"/v1/workdirs/sha256:{'0' * 64}?size=1&owner={t.id}", "x")),
    "set_service": ("submit", "party", lambda t: ("PUT", f"/v1/services?owner={t.id}", {
        "name": t.id.lower().replace("_", "-"), "job": {"run": "true", "port": 8000}})),
    "set_level": ("platform", "root", lambda t: ("PUT", "/v1/levels", {
        "name": "gold", "party": "platform", "start_within": "5m"})),
    "remove_level": ("nobody", "root", lambda t: ("DELETE", "/v1/levels/platform/nothing", None)),
    "set_recurring": ("submit", "party", lambda t: ("PUT", f"/v1/recurring?owner={t.id}", {
        "name": t.id.lower(), "every": "weekdays 22:00", "zone": "Europe/Madrid", "job": {"run": "true"}})),
    "show_recurring": ("nobody", "root", lambda t: ("GET", "/v1/recurring/nothing", None)),
    "remove_recurring": ("nobody", "root", lambda t: ("DELETE", "/v1/recurring/nothing", None)),
    "show_service": ("nobody", "root", lambda t: ("GET", "/v1/services/nothing", None)),
    "remove_service": ("nobody", "root", lambda t: ("DELETE", "/v1/services/nothing", None)),
    "resume_contract": ("nobody", "root", lambda t: ("POST", "/v1/market/contracts/ctr_00ZZZZ/resume", {})),
}


class Target:
    def __init__(self, identity, path, holder="platform"):
        self.id, self.path, self.holder = identity, path, holder


class World:
    """Two tenants with the same shape; every role bound in acme/red, or where it belongs."""

    def __init__(self, operator):
        self.operator, self.tokens, self.bound, self.targets = operator, {}, {}, {}
        for tenant in ("acme", "blue"):
            self.make("tenants", {"name": tenant}, tenant)
            for unit in ("red", "green"):
                self.make("subscribers", {"name": unit, "parent": tenant}, f"{tenant}/{unit}")
                self.make("service-accounts", {"name": "robot", "parent": f"{tenant}/{unit}"}, f"{tenant}/{unit}/robot")
                for name in ("ana", "bob"):
                    path = f"{tenant}/{unit}/{name}"
                    identity, token = make_user(operator, f"{tenant}/{unit}", name)
                    self.targets[path] = identity
                    self.tokens[path] = token
        self.actors = {"anonymous": (None, None, None), "member": ("acme/red/ana", "acme/red", "member")}
        for role in ALLOWS:
            if role == "member":
                continue
            home = {"platform_owner": "platform", "tenant_admin": "acme"}.get(role, "acme/red")
            name = role.replace("_", "-")
            identity, token = make_user(operator, home, name, [role])
            path = name if home == "platform" else f"{home}/{name}"
            self.targets[path], self.tokens[path] = identity, token
            self.actors[role] = (path, home, role)

    def make(self, kind, body, path):
        answer = self.operator.post(f"/v1/{kind}", body)
        assert answer.status == 201, answer
        self.targets[path] = answer.json["id"]

    def job_of(self, path):
        answer = Client(self.operator.port, self.tokens[path]).post("/v1/jobs", {**JOB, "name": f"canary {path}"})
        assert answer.status == 201, answer
        return answer.json["id"]

    def node_of(self, unit):
        answer = self.operator.post("/v1/nodes", {"name": "node-" + unit.replace("/", "-"), "owner": unit})
        assert answer.status == 201, answer
        return answer.json["id"]

    def volume_of(self, unit):
        self.volumes = getattr(self, "volumes", 0) + 1
        answer = self.operator.post("/v1/volumes", {"name": f"canary-{self.volumes}", "size": 1, "owner": unit})
        assert answer.status == 201, answer
        return answer.json["id"]

    def token_of(self, path):
        return self.operator.post("/v1/tokens", {"party": self.targets[path], "scope": "read"}).json["token"]["id"]


def above(path):
    """The path and everything over it, nearest first."""
    parts = path.split("/")
    if path == "platform":
        return ["platform"]
    return ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)] + ["platform"]


def may(actor, right, path):
    who, home, role = actor
    return right in ALLOWS[role] and home in above(path) or path == who and right in OWN


def sees(actor, path):
    return path in above(actor[0]) or may(actor, "view", path)


def expected(actor, right, path):
    """'ok', 403 or 404, from the table alone."""
    who = actor[0]
    if right == "see":
        return "ok" if sees(actor, path) else 404
    if right == "job":
        return "ok" if may(actor, "view_job", path) else 404
    if right == "stop_job":
        return "ok" if may(actor, "stop", path) else 403 if may(actor, "view_job", path) else 404
    if right in ("volume", "volume_change"):
        usable = path in above(who) or may(actor, "view_job", path) or may(actor, "submit", path)
        return 404 if not usable else "ok" if right == "volume" or may(actor, "submit", path) else 403
    if right == "token_or_404":
        return "ok" if may(actor, "token", path) else 404
    if right == "audits":
        return "ok" if any(may(actor, "audit", node) for node in above(who)) else 403
    if right == "manage_or_self" and path == who:
        return "ok"
    if right == "manage_or_self":
        right = "manage"
    if right == "nobody":  # A missing object looks the same to all; whose orders and contracts: market_test.py.
        return 404
    if right == "platform_missing":  # One that nobody has: who may not look does not learn that.
        return 404 if may(actor, "platform", path) else 403
    if right == "quota_above":
        return "ok" if sees(actor, path) and may(actor, "quota", above(path)[1]) else 403 if sees(actor, path) else 404
    if may(actor, right, path):
        return "ok"
    return 403 if sees(actor, path) else 404


def targets_for(world, kind, actor_path):
    """(what it is to the actor, its path, the object) for own, sibling, other unit, other tenant, missing."""
    homes = {"own": "acme/red/ana", "sibling": "acme/red/bob", "other unit": "acme/green/ana", "other tenant": "blue/red/ana"}
    if actor_path in world.targets and actor_path.startswith("acme/red/"):
        homes["own"] = actor_path
    missing = {"party": "usr_00ZZZZ", "unit": "sub_00ZZZZ", "tenant": "ten_00ZZZZ", "service": "svc_00ZZZZ",
               "job": "job_00ZZZZ", "token": "tok_00ZZZZ", "node": "node_00ZZZZ", "booking": "clm_00ZZZZ",
               "volume": "vol_00ZZZZ"}
    if kind == "root":
        return [("root", "platform", Target("platform", "platform"))]
    out = []
    if kind == "booking":  # Only missing ones: none can be made without devices. The engine's tests have the rest.
        homes = {}
    for what, path in homes.items():
        if kind == "party":
            out.append((what, path, Target(world.targets[path], path)))
        elif kind == "unit":
            unit = "/".join(path.split("/")[:2])
            out.append((what, unit, Target(world.targets[unit], unit, world.targets[f"{unit}/bob"])))
        elif kind == "node":
            unit = "/".join(path.split("/")[:2])
            out.append((what, unit, Target(world.node_of(unit), unit)))
        elif kind == "volume":
            unit = "/".join(path.split("/")[:2])
            out.append((what, unit, Target(world.volume_of(unit), unit)))
        elif kind == "tenant":
            tenant = path.split("/")[0]
            out.append((what, tenant, Target(world.targets[tenant], tenant)))
        elif kind == "service":
            robot = "/".join(path.split("/")[:2]) + "/robot"
            out.append((what, robot, Target(world.targets[robot], robot)))
        elif kind == "job":
            owner = path if path in world.tokens and path.split("/")[-1] in ("ana", "bob") else "acme/red/ana"
            out.append((what, owner, Target(world.job_of(owner), owner)))
        elif kind == "token":
            out.append((what, path, Target(world.token_of(path), path)))
    out.append(("missing", None, Target(missing[kind], None, world.targets["acme/red/bob"])))
    return out


def without_request_id(body):
    try:
        document = json.loads(body)
    except ValueError:
        return body
    if isinstance(document, dict):
        document.pop("request_id", None)
    return json.dumps(document)


def every_route_has_a_row():
    """A route that this test does not know fails it."""
    with Platform() as platform:
        document = Client(platform.port).get("/openapi.json").json
        known = set(TARGETED) | PUBLIC | ANYONE
        found = {operation["operationId"] for methods in document["paths"].values() for operation in methods.values()}
        assert found <= known, f"routes without a row: {sorted(found - known)}"
        assert found >= known, f"rows without a route: {sorted(known - found)}"


def roles_and_ownership():
    """Each cell of the matrix gives what the table of roles says, and hidden looks like missing."""
    checked = 0
    with Platform() as platform:
        operator = platform.client()
        world = World(operator)
        document = operator.get("/openapi.json").json
        found = {operation["operationId"] for methods in document["paths"].values() for operation in methods.values()}
        for operation in sorted(found & set(TARGETED)):
            right, kind, request = TARGETED[operation]
            for role, actor in world.actors.items():
                client = Client(platform.port, world.tokens.get(actor[0]))
                answers = {}
                for what, path, target in targets_for(world, kind, actor[0] or ""):
                    if operation == "revoke_role" and path:
                        operator.post("/v1/roles", {"at": target.id, "holder": target.holder, "role": "billing"})
                    method, url, body = request(target)
                    answer = client.call(method, url, body)
                    answers[what] = answer
                    checked += 1
                    where = f"{operation} by {role} on {what} {path}: {answer}"
                    if role == "anonymous":
                        assert answer.status == 401, where
                        continue
                    wanted = 404 if path is None else expected(actor, right, path)
                    if path is None and operation in ("issue_token", "set_password"):
                        wanted = 404
                    if wanted == "ok":
                        # Allowed by role, and then refused for want of money, is allowed.
                        unpaid = answer.status == 403 and "urn:tranche:problem:budget" in answer.body
                        assert unpaid or answer.status not in (401, 403, 404) and answer.status < 500, where
                    else:
                        assert answer.status == wanted, f"{where}, expected {wanted}"
                missing = answers.get("missing")
                for what, answer in answers.items():
                    if answer.status == 404 and missing is not None:
                        assert without_request_id(answer.body) == without_request_id(missing.body), f"{operation} {role} {what}"
    return f"{checked} cells"


def lists_show_nothing_foreign():
    """No list, search, event, audit entry or metric holds anything of another tenant."""
    with Platform() as platform:
        operator = platform.client()
        world = World(operator)
        for path in ("blue/red/ana", "acme/red/ana"):
            world.job_of(path)
            world.node_of("/".join(path.split("/")[:2]))
            world.volume_of("/".join(path.split("/")[:2]))
        foreign = [identity for path, identity in world.targets.items() if path.startswith("blue")] + ["canary blue", "node-blue"]
        for role, actor in world.actors.items():
            if role in ("anonymous", "platform_owner"):
                continue
            client = Client(platform.port, world.tokens[actor[0]])
            for url in ("/v1/tenants", "/v1/subscribers", "/v1/users?limit=1000", "/v1/service-accounts", "/v1/jobs", "/v1/roles",
                        "/v1/tokens", "/v1/audit?limit=1000", "/v1/quotas/platform", "/metrics", "/metrics/sim", "/v1/nodes", "/v1/devices",
                        "/v1/volumes?all=true", "/v1/top", "/v1/telemetry", "/v1/logs?text=canary"):
                body = client.get(url).body
                for text in foreign:
                    assert text not in body, f"{role} finds {text} in {url}"


def bodies_cannot_smuggle():
    """Fields that are not the caller's to set are refused by name."""
    with Platform() as platform:
        operator = platform.client()
        operator.post("/v1/tenants", {"name": "acme"})
        _, token = make_user(operator, "acme", "ana")
        client = platform.client(token)
        for body in ({**JOB, "owner": "operator"}, {**JOB, "id": "job_000009"}, {**JOB, "state": "running"},
                     {**JOB, "tenant_id": "ten_000002"}, {**JOB, "price": 0}, {**JOB, "admission": "on_demand"}):
            answer = client.post("/v1/jobs", body)
            assert answer.status == 400 and "unknown key" in answer.json["detail"], answer
        for body in ({"name": "x", "roles": ["platform_owner"]}, {"name": "x", "id": "ten_000009"}, {"name": "x", "version": 1}):
            answer = client.post("/v1/tenants", body)
            assert answer.status in (400, 403), answer


main([every_route_has_a_row, roles_and_ownership, lists_show_nothing_foreign, bodies_cannot_smuggle])
