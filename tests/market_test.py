# SPDX-License-Identifier: Apache-2.0
"""The exchange and the ledger over HTTP and through the command: list, buy, refuse, cancel, account, survive a kill."""
import datetime
import json
import subprocess
import time
import zoneinfo

from tranche_platform import TRANCHE, Client, Platform, main, make_user

H100 = {"model": "H100"}


def trader(operator, tenant, credit):
    assert operator.post("/v1/tenants", {"name": tenant}).status == 201
    _, token = make_user(operator, tenant, "trader", ["tenant_admin"])
    paid = operator.post(f"/v1/accounts/{tenant}/top-up", {"amount": credit, "reference": f"bank {tenant}"})
    assert paid.status == 200 and paid.json["credit"].startswith(credit), paid
    return token


def exchange(platform):
    operator = platform.client()
    seller = Client(platform.port, trader(operator, "owner", "1000"))
    buyer = Client(platform.port, trader(operator, "buyer", "100"))
    certified = operator.put("/v1/market/devices", {"device": "gpu_000001", "owner": "owner", "model": "H100", "accepted": True})
    assert certified.status == 200, certified
    return operator, seller, buyer


def command_of(platform):
    """Runs `tranche` as somebody; what it says, when it ends with that code."""
    def tranche(client, *words, code=0):
        done = subprocess.run(
            [TRANCHE, *words], text=True, capture_output=True, check=False,
            env={"HOME": str(platform.folder), "PATH": "/usr/bin:/bin", "TRANCHE_TOKEN": client.token,
                 "TRANCHE_URL": f"http://127.0.0.1:{platform.port}"})
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr
    return tranche


def list_and_buy():
    """What is listed can be bought at once, is paid at the seller's price, and both see their side of the contract."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        listed = seller.post("/v1/market/listings", {"device": "gpu_000001", "length": "8h", "hourly": "2.00"})
        assert listed.status == 201 and listed.json["resting"], listed
        order = {"instrument": H100, "milli": 500, "length": "3h", "hourly": "2.20", "life": "ioc"}
        quoted = buyer.post("/v1/market/quote", order)
        assert quoted.json["milli_now"] == 500 and quoted.json["best"] == "2.00", quoted
        bought = buyer.post("/v1/market/orders", order)
        assert bought.status == 201 and len(bought.json["contracts"]) == 1, bought
        paid = float(bought.json["paid"])
        assert 3.0 <= paid <= 3.25, bought  # Three hours of half a device at 2.00, to the end of a slot.
        assert paid <= float(quoted.json["cost_now"]) <= float(quoted.json["most"]), (quoted, bought)
        assert bought.json["milli_traded"] == 500, bought
        account = buyer.get("/v1/accounts/buyer").json
        assert float(account["credit"]) + paid == 100 and account["held"] == "0.00", account
        assert buyer.get("/v1/market/contracts").json["items"][0]["role"] == "buyer"
        assert seller.get("/v1/market/contracts").json["items"][0]["role"] == "seller"
        costs = buyer.get("/v1/costs/buyer?by=tenant").json
        assert costs["items"][0]["cost"] == bought.json["paid"] and costs["items"][0]["what"] == "buyer", costs
        bill = buyer.get("/v1/invoices/buyer/current").json
        assert bill["lines"] == [] and bill["third_party"][0]["description"].startswith("Capacity bought on the exchange"), bill
        table = buyer.get("/v1/costs/buyer/focus")
        assert table.status == 200 and table.body.startswith("BilledCost,"), table


def who_trades_for_a_tenant_sees_its_trades():
    """A capacity owner sees what he sold for his tenant, a member what he bought for his unit, and nobody else's."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        _, olga = make_user(operator, "owner", "olga", ["capacity_owner"])
        _, mia = make_user(operator, "buyer", "mia", ["member"])
        olga, mia = Client(platform.port, olga), Client(platform.port, mia)
        listing = {"device": "gpu_000001", "owner": "owner", "length": "8h", "hourly": "2.00"}
        assert olga.post("/v1/market/listings", listing).status == 201
        assert [one["party"] for one in olga.get("/v1/market/orders").json["items"]] == ["owner"]
        assert mia.get("/v1/market/orders").json["items"] == []
        order = {"instrument": H100, "milli": 500, "length": "3h", "hourly": "2.20", "life": "ioc"}
        assert mia.post("/v1/market/quote", {**order, "party": "owner"}).status == 404
        assert mia.post("/v1/market/orders", {**order, "party": "buyer"}).status == 201
        assert [one["role"] for one in olga.get("/v1/market/contracts").json["items"]] == ["seller"]
        assert [one["role"] for one in mia.get("/v1/market/contracts").json["items"]] == ["buyer"]
        assert [one["party"] for one in olga.get("/v1/market/earnings").json["items"]] == ["owner"]
        assert mia.get("/v1/market/earnings").json["items"] == []


def refusals_tell_what_would_pass():
    """Too dear, too much, not his: each refusal names its rule, and other tenants' orders do not exist."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        listing = {"device": "gpu_000001", "length": "8h", "hourly": "2.00"}
        assert buyer.post("/v1/market/listings", listing).status == 404
        listed = seller.post("/v1/market/listings", listing).json
        again = seller.post("/v1/market/listings", listing)
        assert again.status == 409 and "offered or sold already" in again.json["detail"], again
        order = {"instrument": H100, "milli": 500, "length": "1h", "hourly": "1.00", "life": "ioc"}
        low = buyer.post("/v1/market/orders", order)
        assert low.status == 409 and "2.00/h" in low.body, low
        dear = buyer.post("/v1/market/orders", {**order, "hourly": "500.00"})
        assert dear.status in (402, 403, 409, 422) and "credit of buyer" in dear.body, dear
        assert buyer.call("DELETE", f"/v1/market/orders/{listed['order']}").status == 404
        assert buyer.get("/v1/market/orders").json["items"] == []
        twice = operator.post("/v1/accounts/buyer/top-up", {"amount": "100", "reference": "bank buyer"})
        assert twice.status == 409, twice
        assert seller.call("DELETE", f"/v1/market/orders/{listed['order']}").status == 204


def a_kill_loses_nothing():
    """After a kill the same orders rest, with the same money set aside."""
    with Platform() as platform:
        _, seller, buyer = exchange(platform)
        seller.post("/v1/market/listings", {"device": "gpu_000001", "length": "8h", "hourly": "2.00"})
        buyer.post("/v1/market/orders", {"instrument": H100, "milli": 300, "length": "2h", "hourly": "2.00"})
        buyer.post("/v1/market/orders", {"instrument": H100, "milli": 300, "length": "2h", "hourly": "1.00"})
        views = ["/v1/market/orders", "/v1/market/contracts", "/v1/accounts/buyer", "/v1/market/fills"]
        before = [buyer.get(view).json for view in views]
        assert len(before[0]["items"]) == 1 and before[2]["held"] != "0.00", before
        platform.kill()
        platform.start()
        after = [Client(platform.port, buyer.token).get(view).json for view in views]
        assert after == before, (before, after)


def the_command_trades():
    """The same through `tranche`."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        tranche = command_of(platform)
        tranche(seller, "market", "sell", "gpu_000001", "--for", "8h", "--price", "2/h", "--floor", "1.80/h")
        assert "0.5" in tranche(buyer, "market", "quote", "H100:0.5", "--for", "3h")
        bought = json.loads(tranche(buyer, "-o", "json", "market", "buy", "H100:0.5", "--for", "3h", "--limit", "2.10/h"))
        assert bought["contracts"], bought
        for words in (["book"], ["books"], ["depth", "1"], ["fills"], ["orders"], ["contracts"]):
            tranche(buyer, "market", *words)
        tranche(operator, "price", "set", "2026", "--gpu-hour", "2.40")
        assert "2.4" in tranche(buyer, "price", "list")
        assert "exchange" in tranche(buyer, "cost", "show", "buyer", "--by", "job")
        assert "Capacity bought" in tranche(buyer, "invoice", "show", "buyer")
        assert tranche(buyer, "account", "show", "buyer").startswith("PARTY")


def a_model_is_offered_and_followed():
    """A model on a node instead of a device, a window, an audience; the stream tells the trade and names nobody."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        tranche = command_of(platform)
        start = datetime.datetime.now(datetime.timezone.utc).replace(minute=0, second=0, microsecond=0)
        window = "/".join((start + datetime.timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ") for hours in (2, 8))
        before = operator.get("/v1/audit?limit=1").json["items"][0]["sequence"]
        sell = ["market", "sell", "H100", "--window", window, "--floor", "1.80/h", "--min", "1h"]
        refused = tranche(seller, *sell, "--node", "nowhere", code=2)
        assert "there is no node 'nowhere'" in refused, refused
        refused = tranche(seller, *sell, "--to", "people=acme", code=2)
        assert "tenants=… and kinds=…" in refused, refused
        refused = tranche(seller, "market", "sell", "A100", "--for", "1h", "--price", "1/h", code=2)
        assert "no A100 of yours can be offered" in refused, refused
        tranche(seller, *sell, "--to", "tenants=buyer,kinds=inference")
        wanted = ["market", "buy", "H100", "--from", window.split("/")[0], "--for", "2h", "--limit", "2/h"]
        refused = tranche(buyer, *wanted, code=5)  # For a batch job it is not meant.
        assert "only for inference" in refused and "--kind inference" in refused, refused
        tranche(buyer, *wanted, "--kind", "inference")
        onlooker = Client(platform.port, trader(operator, "onlooker", "1"))
        told = tranche(onlooker, "market", "watch", "--from", str(before), "--count", "3", "-o", "jsonl")
        lines = [json.loads(line) for line in told.splitlines()]
        trade = next(line for line in lines if "fill" in line)
        assert trade["fill"]["hourly"] == "1.80" and trade["fill"]["milli"] == 1000, trade
        assert trade["book"]["day_open"] == trade["book"]["last"] == "1.80", trade
        assert "owner" not in told and "trader" not in told and "usr_" not in told, told
        rows = tranche(onlooker, "market", "watch", "--from", str(before), "--count", "3")
        assert "trade  H100" in rows and "1.80/h x 1" in rows, rows
        row = seller.get("/v1/market/earnings").json["items"][0]
        assert row["contracts"] == row["running"] == 1 and row["sold"] == "3.60", row
        assert "3.60" in tranche(seller, "market", "earnings")
        assert onlooker.get("/v1/market/earnings").json["items"] == []


def what_is_sold_again_and_again():
    """By the calendar of a zone; each is a listing, what cannot be listed says why, and cancelling ends the rest."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        tranche = command_of(platform)
        words = ["market", "sell", "gpu_000001", "--every", "day 22:00", "--for", "8h", "--tz", "Europe/Madrid",
                 "--price", "2/h"]
        made = json.loads(tranche(seller, "-o", "json", *words, "--times", "3", "--ahead", "30d"))
        assert made["id"] == "lst_000001" and made["left"] + made["listed"] == 3 and made["zone"] == "Europe/Madrid", made
        shown = wait_for(lambda: seller.get("/v1/market/recurring").json["items"][0], lambda one: one["listed"] == 3)
        orders = seller.get("/v1/market/orders").json["items"]
        assert shown["orders"] == [order["id"] for order in orders] and len(orders) == 3, (shown, orders)
        zone = zoneinfo.ZoneInfo("Europe/Madrid")
        for order in orders:
            begins = datetime.datetime.fromisoformat(order["from"].replace("Z", "+00:00")).astimezone(zone)
            assert (begins.hour, begins.minute) == (22, 0), order
        again = tranche(seller, *words, "--times", "2", "--ahead", "30d")  # The same nights: both are taken.
        assert "lst_000002" in again, again
        second = wait_for(lambda: seller.get("/v1/market/recurring").json["items"][1], lambda one: one["missed"] == 2)
        assert "offered or sold already" in second["misses"][0]["why"], second
        assert "offered or sold already" in tranche(seller, "market", "recurring")
        assert buyer.get("/v1/market/recurring").json["items"] == []
        odd = tranche(seller, *[word.replace("22:00", "22:07") for word in words], code=2)
        assert "15 minutes" in odd, odd
        window = slot_from_now(4) + "/" + slot_from_now(6)
        assert "leave --from and --window out" in tranche(seller, *words, "--window", window, code=2)
        assert buyer.call("DELETE", "/v1/market/recurring/lst_000001").status == 404
        tranche(seller, "market", "cancel", "lst_000001")
        assert seller.get("/v1/market/orders").json["items"] == []
        assert [one["id"] for one in seller.get("/v1/market/recurring").json["items"]] == ["lst_000002"]


def a_quote_holds():
    """What was told is what is paid, though the price changed and somebody else wanted it; it ends by itself."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        tranche = command_of(platform)
        tranche(operator, "market", "rules", "set", "--quotes", "10m", "--fee", "1.5%")
        assert "1.5 %" in tranche(operator, "market", "rules", "show")
        seller.post("/v1/market/listings", {"device": "gpu_000001", "length": "8h", "hourly": "2.00"})
        quoted = json.loads(tranche(buyer, "-o", "json", "market", "quote", "H100", "--for", "2h", "--keep"))
        other = Client(platform.port, trader(operator, "rival", "100"))
        assert "nothing is offered" in tranche(other, "market", "buy", "H100", "--for", "1h", "--limit", "9/h", code=5)
        tranche(other, "market", "buy", "--quote", quoted["id"], code=3)  # For him there is no such quote.
        twice = tranche(buyer, "market", "buy", "H100", "--for", "9h", "--quote", quoted["id"], code=2)
        assert "leave the rest out" in twice, twice
        bought = json.loads(tranche(buyer, "-o", "json", "market", "buy", "--quote", quoted["id"]))
        assert len(bought["contracts"]) == 1 and float(bought["paid"]) <= float(quoted["cost_now"]), (bought, quoted)
        assert float(quoted["cost_now"]) <= float(quoted["most"]) and bought["milli_traded"] == 1000, (bought, quoted)
        tranche(operator, "market", "rules", "set", "--quotes", "5s")
        again = json.loads(tranche(buyer, "-o", "json", "market", "quote", "H100", "--for", "1h", "--from",
                                   slot_from_now(4), "--keep"))
        held = buyer.get("/v1/accounts/buyer").json["held"]
        assert held == again["cost_now"], (held, again)
        wait_for(lambda: buyer.get("/v1/accounts/buyer").json["held"], lambda now: now == "0.00")
        tranche(buyer, "market", "buy", "--quote", again["id"], code=3)  # Forgotten by now.
        dry = tranche(buyer, "market", "buy", "H100", "--for", "1h", "--from", slot_from_now(4), "--limit", "3/h", "--dry-run")
        assert "not kept" in dry and "2.00" in dry, dry
        assert len(buyer.get("/v1/market/contracts").json["items"]) == 1


def slot_from_now(hours):
    now = datetime.datetime.now(datetime.timezone.utc).replace(minute=0, second=0, microsecond=0)
    return (now + datetime.timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_window_is_whole_slots():
    """What is bought covers all that was asked for, what is sold is nothing beyond it; a book without orders says so."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        tranche = command_of(platform)
        odd = slot_from_now(3).replace(":00:00Z", ":05:00Z")
        tranche(seller, "market", "sell", "gpu_000001", "--from", odd, "--for", "4h", "--price", "2/h")
        offered = seller.get("/v1/market/orders").json["items"][0]
        assert offered["from"] == odd.replace(":05:", ":15:") and offered["to"] == slot_from_now(7), offered
        refused = tranche(seller, "market", "sell", "gpu_000001", "--from", odd, "--for", "10m", "--price", "2/h", code=2)
        assert "rule: window" in refused, refused  # There is no whole slot in it.
        tranche(buyer, "market", "buy", "H100", "--from", odd, "--for", "1h", "--limit", "1/h", "--rest")
        bid = buyer.get("/v1/market/orders").json["items"][0]
        assert bid["from"] == slot_from_now(3) and bid["to"] == slot_from_now(4).replace(":00:00Z", ":15:00Z"), bid
        refused = tranche(buyer, "market", "buy", "H100", "--for", "1h", "--limit", "3/h", code=5)
        assert f"from {offered['from']} on something is offered, the best at 2.00/h" in refused, refused
        shown = subprocess.run([TRANCHE, "market", "depth", "1"], text=True, capture_output=True, check=True,
                               env={"HOME": str(platform.folder), "TRANCHE_TOKEN": buyer.token,
                                    "TRANCHE_URL": f"http://127.0.0.1:{platform.port}"})
        assert "--at TIME looks at another" in shown.stdout + shown.stderr, shown
        assert "ask" in tranche(buyer, "market", "depth", "1", "--at", offered["from"].replace("Z", "+00:00"))


def orders_say_how_long_they_live():
    """IOC, FOK, GTC and GTD by those names; least amounts; what contradicts itself is told."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        tranche = command_of(platform)
        tranche(seller, "market", "sell", "gpu_000001", "--from", slot_from_now(2), "--for", "4h", "--price", "2/h",
                "--min-share", "0.25", "--min", "1h")
        cheap = ["market", "buy", "--from", slot_from_now(2), "--for", "2h", "--limit", "1/h"]
        buy = [*cheap[:-1], "2/h"]
        refused = tranche(buyer, *buy, "H100:0.1", "--tif", "ioc", code=5)
        assert "quantity_min" in refused and " at least" in refused, refused
        assert "fill_or_kill" in tranche(buyer, *buy, "H100", "--count", "2", "--tif", "fok", code=5)
        resting = json.loads(tranche(buyer, "-o", "json", *cheap, "H100:0.5", "--tif", "gtc"))
        assert resting["resting"], resting
        until = slot_from_now(1)
        tranche(buyer, *cheap, "H100:0.5", "--tif", "gtd", "--expires", until, "--min-share", "0.25")
        lives = {one["life"]: one for one in buyer.get("/v1/market/orders").json["items"]}
        assert set(lives) == {"gtc", "gtd"} and lives["gtd"]["expires"] == until and lives["gtd"]["milli_min"] == 250, lives
        assert "gtd" in tranche(buyer, "market", "orders")
        for words, told in ((["--tif", "gtd"], "--expires"), (["--tif", "ioc", "--rest"], "contradicts"),
                            (["--tif", "never"], "gtc"), (["--now"], "contradict")):
            assert told in tranche(buyer, *buy, "H100", *words, code=2), words
        assert "--limit" in tranche(buyer, "market", "buy", "H100", "--for", "1h", code=2)
        assert "sell on" in tranche(buyer, "market", "cancel", "ctr_000001", code=2)
        tranche(buyer, *buy, "H100:0.5", "--tif", "fok")
        rows = tranche(buyer, "market", "candles", "1", "--step", "hour")
        assert "2.00" in rows and "GPU-HOURS" in rows, rows
        day = buyer.get("/v1/market/books/1/candles").json["items"]
        assert len(day) == 1 and day[0]["open"] == day[0]["close"] == "2.00", day


def nobody_learns_who_the_other_is():
    """Neither in contracts nor in events nor in the audit log; unless the operator says so."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        tranche = command_of(platform)
        seller.post("/v1/market/listings", {"device": "gpu_000001", "length": "8h", "hourly": "2.00"})
        buyer.post("/v1/market/orders", {"instrument": H100, "milli": 500, "length": "1h", "hourly": "2.00", "life": "ioc"})
        buyer.post("/v1/market/quotes", {"instrument": H100, "milli": 200, "length": "1h"})
        theirs = [operator.get(path).json["id"] for path in ("/v1/tenants/owner", "/v1/users/owner%2Ftrader")] + ["owner"]
        seen = [buyer.get("/v1/market/contracts").body, buyer.get("/v1/audit?limit=100").body]
        for text in seen:
            for name in theirs:
                assert f'"{name}"' not in text, (name, text[:3000])
        assert "order_filled" in seen[1] and "quote_kept" in seen[1], seen[1][:2000]
        assert buyer.get("/v1/market/contracts").json["items"][0]["counterparty"] == ""
        tranche(operator, "market", "rules", "set", "--names", "yes")
        assert buyer.get("/v1/market/contracts").json["items"][0]["counterparty"] == "owner"
        assert seller.get("/v1/market/contracts").json["items"][0]["counterparty"] == "buyer"


def end_of_this_slot():
    """Always sooner than the notice of a whole slot; any later moment may be rounded up to one that is late enough."""
    now = datetime.datetime.now(datetime.timezone.utc).replace(second=0, microsecond=0)
    return (now + datetime.timedelta(minutes=15 - now.minute % 15)).strftime("%Y-%m-%dT%H:%M:%SZ")


def a_seller_takes_back_with_notice():
    """Not without it; then the contract ends earlier, and the buyer has the rest and a penalty at once."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        tranche = command_of(platform)
        seller.post("/v1/market/listings", {"device": "gpu_000001", "length": "8h", "hourly": "2.00"})
        buyer.post("/v1/market/orders", {"instrument": H100, "milli": 1000, "length": "4h", "hourly": "2.00", "life": "fok"})
        before = float(buyer.get("/v1/accounts/buyer").json["credit"])
        early = tranche(seller, "market", "reclaim", "ctr_000001", "--at", end_of_this_slot(), code=6)
        assert "15m" in early and "or later" in early, early
        tranche(buyer, "market", "reclaim", "ctr_000001", code=3)
        tranche(seller, "market", "reclaim", "ctr_000001")
        contract = buyer.get("/v1/market/contracts").json["items"][0]
        back = float(buyer.get("/v1/accounts/buyer").json["credit"]) - before
        assert 6.5 < back < 9.3 and contract["state"] == "agreed", (back, contract)  # More than three hours, and a tenth.
        assert float(contract["value"]) < 1.6, contract


def another_platform_trades_as_any_tenant():
    """Two servers: the one lists what it has idle at the other, over the public API with a service account's token, and buys."""
    with Platform() as here, Platform() as there:
        operator, _, buyer = exchange(here)
        assert operator.post("/v1/tenants", {"name": "peer"}).status == 201
        assert operator.post("/v1/accounts/peer/top-up", {"amount": "50"}).status == 200
        account = operator.post("/v1/service-accounts", {"parent": "peer", "name": "bridge", "roles": ["capacity_owner", "member"]})
        assert account.status == 201, account
        issued = operator.post("/v1/tokens", {"party": "peer/bridge", "scope": "admin"})
        assert issued.status == 201, issued
        bridge = Client(here.port, issued.json["secret"])
        foreign = {"device": "gpu_900001", "owner": "peer", "model": "A100-SXM4-80GB", "region": "peer-east", "accepted": True}
        assert bridge.put("/v1/market/devices", foreign).status == 403  # Its own word does not certify a device.
        assert operator.put("/v1/market/devices", foreign).status == 200

        # At home its owner has something idle; the bridge offers that here as well, and knows what it offered.
        home_operator, home_owner, _ = exchange(there)
        home = home_owner.post("/v1/market/listings", {"device": "gpu_000001", "length": "6h", "hourly": "1.50",
                                                       "from": slot_from_now(1)}).json
        idle = next(one for one in home_owner.get("/v1/market/orders").json["items"] if one["id"] == home["order"])
        length = (datetime.datetime.fromisoformat(idle["to"].replace("Z", "+00:00"))
                  - datetime.datetime.fromisoformat(idle["from"].replace("Z", "+00:00")))
        offer = {"owner": "peer/bridge", "device": "gpu_900001", "milli": idle["milli"], "from": idle["from"],
                 "length": f"{int(length.total_seconds())}s", "hourly": idle["hourly"]}
        listed = bridge.post("/v1/market/listings", offer)
        assert listed.status == 201 and listed.json["resting"], listed
        assert bridge.post("/v1/market/listings", offer).status == 409  # Not twice: no calendar is needed for that.

        # Somebody here buys a part of it; the bridge sees that, and takes as much off its own exchange.
        order = {"instrument": {"model": "A100-SXM4-80GB"}, "milli": 1000, "from": idle["from"], "length": "2h",
                 "hourly": "1.60", "life": "fok"}
        bought = buyer.post("/v1/market/orders", order)
        assert bought.status == 201, bought
        sold = bridge.get("/v1/market/contracts").json["items"]
        assert len(sold) == 1 and sold[0]["role"] == "seller" and sold[0]["device"] == "", sold
        assert home_owner.call("DELETE", f"/v1/market/orders/{home['order']}").status == 204

        # It cannot deliver: the buyer gets everything back, and a penalty.
        before = float(buyer.get("/v1/accounts/buyer").json["credit"])
        back = bridge.post(f"/v1/market/contracts/{sold[0]['id']}/reclaim", {"at": sold[0]["from"]})
        assert back.status == 200, back
        assert abs(float(buyer.get("/v1/accounts/buyer").json["credit"]) - before - 3.30) < 0.001
        assert bridge.get("/v1/market/earnings").json["items"][0]["delivered"] == 0

        # And it buys here what it needs at home.
        seller = Client(here.port, trader(operator, "landlord", "50"))
        assert operator.put("/v1/market/devices", {"device": "gpu_000007", "owner": "landlord", "model": "L4",
                                                   "region": "here", "accepted": True}).status == 200
        seller.post("/v1/market/listings", {"device": "gpu_000007", "length": "4h", "hourly": "0.50"})
        wanted = {"instrument": {"model": "L4"}, "milli": 1000, "length": "1h", "hourly": "0.60", "life": "ioc"}
        quote = bridge.post("/v1/market/quotes", wanted)
        assert quote.status == 201, quote
        taken = bridge.post(f"/v1/market/quotes/{quote.json['id']}/take")
        assert taken.status == 201 and len(taken.json["contracts"]) == 1, taken


def who_bought_sells_on():
    """A member sells on what he bought, takes that back, and offers it again; his administrator may do it for him."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        tranche = command_of(platform)
        member = Client(platform.port, make_user(operator, "buyer", "member", ["member"])[1])
        tranche(seller, "market", "sell", "gpu_000001", "--for", "8h", "--price", "2/h")
        tranche(member, "market", "buy", "H100", "--for", "3h", "--limit", "2.10/h")
        contract = member.get("/v1/market/contracts").json["items"][0]["id"]
        on = ["market", "sell", contract, "--for", "1h", "--price", "2.40/h"]
        for _ in range(2):
            tranche(member, *on)
            assert "offered or sold already" in tranche(member, *on, code=5)
            offer = member.get("/v1/market/orders").json["items"][0]
            assert offer["side"] == "sell" and offer["party"] == "buyer/member", offer
            tranche(member, "market", "cancel", offer["id"])
        tranche(buyer, *on)
        assert member.get("/v1/market/orders").json["items"][0]["party"] == "buyer/member"
        refused = tranche(member, "market", "sell", "gpu_000001", "--for", "1h", "--price", "2/h", code=4)
        assert "for the role capacity_owner" in refused, refused
        for words, said in ((["gpu_000001", "--node", "n1"], "named where a model is offered"),
                            (["gpu_000001", "--region", "eu"], "named where a model is offered"),
                            ([contract, "--interruptible"], "sold on as what it is"),
                            (["H100", "--region", "mars"], "no H100 of yours can be offered in mars")):
            refused = tranche(seller, "market", "sell", *words, "--for", "1h", "--price", "2/h", code=2)
            assert said in refused, refused
        for words in (["sell", contract, "--min", "-1h", "--for", "1h", "--price", "2/h"], ["buy", "H100", "--for", "-1h", "--limit", "2/h"]):
            assert "takes a duration such as 3h" in tranche(member, "market", *words, code=2)
        refused = tranche(member, "market", "buy", "H10O", "--for", "1h", "--limit", "1/h", "--rest", code=2)
        assert "did you mean 'H100'" in refused, refused


def what_was_sold_on_ends_with_what_it_was_made_of():
    """Taken back in part from under him, a buyer keeps what is left and is paid the rest; the owner lists it again at once."""
    with Platform() as platform:
        operator, seller, buyer = exchange(platform)
        third = Client(platform.port, trader(operator, "third", "100"))
        tranche = command_of(platform)
        start, cut, end = slot_from_now(2), slot_from_now(3), slot_from_now(5)
        credit = lambda: float(third.get("/v1/accounts/third").json["credit"])
        mine = lambda: third.get("/v1/market/contracts").json["items"][0]
        list_device = ["market", "sell", "gpu_000001", "--price", "2/h", "--window"]
        tranche(seller, *list_device, f"{start}/{end}")
        tranche(buyer, "market", "buy", "H100", "--from", start, "--for", "3h", "--limit", "2/h")
        tranche(buyer, "market", "sell", "ctr_000001", "--window", f"{start}/{end}", "--price", "2.20/h")
        tranche(third, "market", "buy", "H100", "--from", start, "--for", "3h", "--limit", "2.20/h")
        assert abs(credit() - 93.40) < 1e-9, credit()
        tranche(seller, "market", "reclaim", "ctr_000001", "--at", cut)
        kept = wait_for(mine, lambda one: one["to"] == cut)
        assert kept["state"] == "agreed" and kept["from"] == start and kept["value"] == "2.20", kept
        assert abs(credit() - (93.40 + 4.40 + 0.44)) < 1e-9, credit()  # Two hours, and a tenth of them.
        tranche(seller, *list_device, f"{cut}/{end}")
        tranche(seller, "market", "reclaim", "ctr_000001", "--at", start)
        lost = wait_for(mine, lambda one: one["state"] == "defaulted")
        assert lost["refunded"] == "2.20" and abs(credit() - 100.66) < 1e-9, (lost, credit())
        tranche(seller, *list_device, f"{start}/{cut}")


def wait_for(look, wanted):
    deadline = time.monotonic() + 120
    while not wanted(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


main([list_and_buy, who_trades_for_a_tenant_sees_its_trades, refusals_tell_what_would_pass, a_kill_loses_nothing,
      the_command_trades, a_model_is_offered_and_followed,
      what_is_sold_again_and_again, a_quote_holds, a_window_is_whole_slots, orders_say_how_long_they_live, nobody_learns_who_the_other_is,
      a_seller_takes_back_with_notice, who_bought_sells_on,
      what_was_sold_on_ends_with_what_it_was_made_of, another_platform_trades_as_any_tenant])
