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
        account = buyer.get("/v1/accounts/buyer").json
        assert float(account["credit"]) + paid == 100 and account["held"] == "0.00", account
        assert buyer.get("/v1/market/contracts").json["items"][0]["role"] == "buyer"
        assert seller.get("/v1/market/contracts").json["items"][0]["role"] == "seller"
        costs = buyer.get("/v1/costs/buyer?by=tenant").json
        assert costs["items"][0]["cost"] == bought.json["paid"] and costs["items"][0]["what"] == "buyer", costs
        bill = buyer.get("/v1/invoices/buyer/current").json
        assert bill["lines"][0]["description"] == "Capacity bought on the exchange", bill
        table = buyer.get("/v1/costs/buyer/focus")
        assert table.status == 200 and table.body.startswith("BilledCost,"), table


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
        assert "no A100 of yours is certified" in refused, refused
        tranche(seller, *sell, "--to", "tenants=buyer,kinds=inference")
        wanted = ["market", "buy", "H100", "--from", window.split("/")[0], "--for", "2h", "--limit", "2/h"]
        refused = tranche(buyer, *wanted, code=5)  # For a batch job it is not meant.
        assert "nothing is offered in that window" in refused, refused
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
        assert buyer.call("DELETE", "/v1/market/recurring/lst_000001").status == 404
        tranche(seller, "market", "cancel", "lst_000001")
        assert seller.get("/v1/market/orders").json["items"] == []
        assert [one["id"] for one in seller.get("/v1/market/recurring").json["items"]] == ["lst_000002"]


def wait_for(look, wanted):
    deadline = time.monotonic() + 120
    while not wanted(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


main([list_and_buy, refusals_tell_what_would_pass, a_kill_loses_nothing, the_command_trades, a_model_is_offered_and_followed,
      what_is_sold_again_and_again])
