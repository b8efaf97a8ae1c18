"""What goes wrong: the network, sessions, refusals, and texts and numbers that nobody expects."""

import datetime as dt
import json
import re
import time

from playwright.sync_api import expect

from dodona.server.accounts import Accounts
from dodona.server.sessions import Sessions
from tests.page.scene import MARKUP, PASSWORD


def spent(server, dataset="hospital-stays"):
    with server.api("ada") as api:
        return api.get(f"/datasets/{dataset}/budget").json()["charges"]


def test_a_server_that_is_gone_is_asked_again_under_the_same_key_and_paid_once(look, server):
    ada = look("ada")
    ada.write("SELECT count(*) FROM stays WHERE stay > 30")
    expect(ada.offer).to_contain_text("of the budget")
    before, keys = spent(server), []

    def fail(route):
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            route.abort()  # the request never arrived
        elif len(keys) == 2:
            route.fetch()  # it arrived and was charged, and the reply was lost
            route.abort()
        else:
            route.continue_()

    ada.page.route("**/answers", fail)
    ada.page.get_by_role("button", name="Ask", exact=True).click()
    expect(ada.page.get_by_text("you pay once at most")).to_be_visible()
    expect(ada.page.get_by_text("The answer is below.")).to_be_visible()
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert spent(server) == before + 1


def test_a_server_that_stays_away_is_named_and_what_was_typed_is_kept(look):
    ada = look("ada")
    ada.page.route("**/quotes", lambda route: route.abort())
    ada.write("SELECT count(*) FROM stays WHERE stay > 31")
    expect(ada.page.get_by_role("alert")).to_contain_text("cannot be reached")
    expect(ada.offer).to_contain_text("The price is not known while the server cannot be reached.")  # nothing is wrong
    ada.page.unroute("**/quotes")
    ada.page.get_by_role("button", name="Try again").click()
    expect(ada.offer).to_contain_text("of the budget")
    expect(ada.editor).to_have_text("SELECT count(*) FROM stays WHERE stay > 31")


def test_a_session_that_ends_keeps_the_typed_text(look, server):
    ada = look(None)
    page = ada.page
    page.get_by_role("tab", name="Password").click()
    page.get_by_label("Name").fill("ada")
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    ada.write("SELECT count(*) FROM stays WHERE stay > 32")
    expect(ada.offer).to_contain_text("of the budget")
    with Accounts.open(server.accounts) as accounts:
        Sessions(accounts).end_all("ada")
    page.get_by_role("button", name="Ask", exact=True).dispatch_event("click")  # a rehearsal may have noticed before
    dialog = page.get_by_role("dialog", name="Your session has ended")
    dialog.get_by_label("Your token").fill(server.tokens["ada"])
    dialog.get_by_role("button", name="Log in", exact=True).click()
    expect(dialog).not_to_be_visible()
    expect(ada.editor).to_have_text("SELECT count(*) FROM stays WHERE stay > 32")
    assert ada.ask().locator(".figure").is_visible()


def test_on_a_slow_network_the_newest_price_is_shown_and_no_question_is_asked_twice(look, server):
    ada = look("ada")
    delays = iter([1.5, 0, 0, 0, 0, 0])

    def slow(route):
        time.sleep(next(delays, 0))
        route.continue_()

    ada.page.route("**/quotes", slow)
    ada.write("SELECT count(*) FROM stays")
    ada.page.wait_for_timeout(400)
    ada.write("SELECT avg(cost) FROM stays")
    expect(ada.offer).to_contain_text("avg: within")
    before = spent(server)
    ada.page.route("**/answers", slow)
    ada.page.get_by_role("button", name="Ask", exact=True).dblclick()
    expect(ada.page.get_by_text("The answer is below.")).to_be_visible()
    assert spent(server) == before + 1


def test_what_is_typed_before_the_next_frame_stays(look):
    ada = look("ada")
    ada.page.route("**/rehearsals", lambda route: route.abort())  # so that nothing is on its way behind the price
    expect(ada.offer).to_contain_text(re.compile("of the budget|Free"))
    ada.page.clock.install()
    ada.page.clock.pause_at(dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))  # no frame comes, and no timer ends
    ada.write("SELECT max(age) FROM stays")
    ada.page.clock.run_for(1000)
    expect(ada.editor).to_have_text("SELECT max(age) FROM stays")


def test_what_is_saved_stays_where_a_list_of_it_comes_late(look, server):
    """The lists that the page asks for first are held back; they say later what there was then: nothing."""
    ada = look("ada")
    held = {"dashboards": [], "notes": []}

    def hold(route):
        kind = route.request.url.rpartition("/")[2]
        if held[kind]:
            route.continue_()
        else:
            held[kind].append(route)

    with server.api("ada") as api:
        path = "/datasets/hospital-stays/saved/dashboards/Late"
        card = {"question": "SELECT count(*) FROM stays", "title": "old"}
        assert api.put(path, json={"content": {"cards": [card]}}).status_code == 200
        answer = ada.ask("SELECT count(*) FROM stays WHERE stay > 29")
        ada.page.route(re.compile("/saved/(dashboards|notes)$"), hold)
        answer.get_by_role("button", name="Save to a dashboard").click()
        ada.page.get_by_label("Dashboard", exact=True).fill("Late")
        ada.page.get_by_label("Title of the chart").fill("new")
        ada.page.get_by_role("button", name="Save", exact=True).click()
        expect(ada.page.get_by_role("dialog")).not_to_be_visible()
        titles = [one["title"] for one in api.get(path).json()["content"]["cards"]]
        assert titles == ["old", "new"]
        ada.go("History")
        ada.page.get_by_role("button", name="Add a note").first.click()
        ada.page.get_by_label("Note", exact=True).fill("meanwhile")
        ada.page.get_by_role("button", name="Save", exact=True).click()
        expect(ada.page.get_by_text("meanwhile", exact=True)).to_be_visible()
        for [route] in held.values():
            with ada.page.expect_response(route.request.url):
                route.fulfill(json={"saved": []})
        ada.page.get_by_label("Search").fill("meanwhile")  # drawn after the list has come
        expect(ada.page.get_by_text("meanwhile", exact=True)).to_be_visible()
        api.delete(path)


def test_two_analysts_at_once_pay_once_for_one_question(look, server):
    ada, ben = look("ada"), look("ben")
    for visit in (ada, ben):
        visit.write("SELECT avg(age) FROM stays WHERE cost < 777")  # follows from nothing that other tests asked
        expect(visit.offer).to_contain_text("avg: ")
    before = spent(server)
    for visit in (ada, ben):
        visit.page.get_by_role("button", name="Ask", exact=True).click()
    for visit in (ada, ben):
        expect(visit.page.get_by_text("The answer is below.")).to_be_visible()
    assert ada.answer.locator("tbody").inner_text() == ben.answer.locator("tbody").inner_text()
    assert spent(server) == before + 1


def test_a_refused_question_says_why_and_that_nothing_was_charged(look, server):
    ada = look("ada")
    before = spent(server)
    ada.write("SELECT avg(cost) FROM stays WHERE age > 100")
    ada.page.get_by_label("Within").fill("0.001%")
    expect(ada.offer.locator(".notice.warn")).to_be_visible()
    ada.page.get_by_role("button", name="Ask", exact=True).click()
    alert = ada.page.get_by_role("alert")
    expect(alert).to_contain_text("of the budget")
    expect(alert).to_contain_text("Nothing was charged.")
    assert spent(server) == before


def test_a_question_that_is_too_precise_is_refused_at_once_and_asked_again_by_nobody(look):
    ada = look("ada")
    asked = []
    ada.page.on("request", lambda sent: asked.append(sent.url) if sent.url.endswith("/answers") else None)
    ada.write("SELECT avg(stay) FROM stays WHERE age > 100")
    ada.page.get_by_label("Within").fill("0.0000001%")
    alert = ada.page.get_by_role("alert")
    expect(alert).to_contain_text("cannot be answered that precisely")
    expect(ada.offer).to_contain_text("There is no price for it.")
    expect(alert.get_by_role("button", name="Try again")).to_have_count(0)  # the server is there
    ada.page.get_by_role("button", name="Ask", exact=True).click()
    expect(ada.page.get_by_role("button", name="Ask", exact=True)).to_be_enabled()
    expect(alert).to_contain_text("Nothing was charged.")
    assert len(asked) == 1


def test_markup_in_labels_questions_and_notes_is_shown_as_text(look):
    ada = look("ada", dataset="odd")
    answer = ada.ask("SELECT mark, count(*) FROM odd GROUP BY mark")
    expect(answer.locator("tbody")).to_contain_text(MARKUP)
    expect(answer.locator("svg text").filter(has_text="<img src=x onerror").first).to_be_visible()
    ada.page.locator("summary").filter(has_text="mark").click()
    ada.page.get_by_role("button", name=MARKUP).click()  # a label goes into the question as a literal
    expect(ada.editor).to_contain_text(f"'{MARKUP}'")
    where = f"mark = '{MARKUP}' AND large < 500000000000000"  # what is free would not be in the history
    ada.ask(f"SELECT count(*) FROM odd WHERE {where} -- <script>window.broken=2</script>")  # noqa: S608  text
    ada.go("History")
    charge = ada.page.get_by_role("listitem").filter(has_text="onerror").first
    charge.get_by_role("button", name="Add a note").click()
    charge.get_by_label("Note").fill(f"{MARKUP}<script>window.broken=3</script>")
    charge.get_by_role("button", name="Save").click()
    expect(charge.locator(".note")).to_have_text(f"{MARKUP}<script>window.broken=3</script>")
    assert ada.page.evaluate("() => window.broken") is None
    expect(ada.page.locator("img, main script")).to_have_count(0)


def test_markup_in_names_and_endless_labels_of_a_broken_server_are_shown_as_text(look):
    ada = look(None, dataset="odd")

    def change(route):
        reply = route.fetch()
        document = reply.json()
        document["columns"][0] |= {
            "name": f"{MARKUP}<b>",
            "labels": ["y" * 10_000, "</option><script>window.broken=4</script>"],
        }
        route.fulfill(response=reply, json=document)

    ada.page.route(re.compile(r"/datasets/odd$"), change)
    ada.page.get_by_label("Your token").fill(ada.server.tokens["ada"])
    ada.page.get_by_role("button", name="Log in", exact=True).click()
    column = ada.page.locator("details.column").first
    expect(column.locator(".name")).to_have_text(f"{MARKUP}<b>")
    column.locator("summary").click()
    ada.page.get_by_label("Only rows where").select_option(index=1)
    assert ada.page.evaluate("() => window.broken") is None
    expect(ada.page.locator("img, main script, main b")).to_have_count(0)
    assert ada.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def fake(keys, rows):
    """Return an answer as a server would send it."""
    constant = dict.fromkeys(("simultaneous", "stale", "any_choice", "reused"), False)
    constant |= {"accuracy": [], "warnings": [], "keys": []}
    texts = {
        "question": "SELECT x",
        "against": "table",
        "source": "measured",
        "mechanism": "noise",
        "theorem": "release",
        "about": "",
    }
    proof = {
        "receipt": "r",
        "head": "h",
        "version": "1",
        "price": {"share": "1/100", "epsilon": 0.1},
        "confidence": 0.95,
    }
    columns = [*keys, {"name": "sum", "kind": "estimate"}]
    return {"format": 1, "columns": columns, "rows": rows} | constant | texts | proof


def test_numbers_beyond_2_to_the_53_are_shown_with_every_digit(look):
    ada = look("ada", dataset="odd")
    answer = ada.ask("SELECT sum(large) FROM odd")  # 2,000 times 10^15
    value = answer.locator("tbody td").first.inner_text().replace(",", "")
    with ada.server.api("ada") as api:
        body = {"question": "SELECT sum(large) FROM odd", "max_price": 0, "within": "2%"}
        text = api.post("/datasets/odd/answers", json=body, headers={"Idempotency-Key": "large"}).text
    assert int(value) == json.loads(text)["rows"][0][0]["value"] > 2**53
    exact = 9_007_199_254_740_993  # 2^53 + 1: the first that a double cannot hold
    reply = json.dumps(fake([], [[{"value": exact, "low": exact - 2, "high": exact + 2}]]))
    ada.page.route("**/answers", lambda route: route.fulfill(body=reply, content_type="application/json"))
    answer = ada.ask("SELECT count(*) FROM odd")
    expect(answer.locator("tbody td").first).to_have_text("9,007,199,254,740,993")


def test_a_hundred_thousand_groups_are_paged_and_charted_as_top_and_rest(look):
    ada = look("ada", dataset="odd")
    rows = [[f"g{number}", {"value": number, "low": number - 5, "high": number + 5}] for number in range(100_000)]
    reply = json.dumps(fake([{"name": "g", "kind": "label", "key": 0}], rows))
    ada.page.route("**/answers", lambda route: route.fulfill(body=reply, content_type="application/json"))
    answer = ada.ask("SELECT count(*) FROM odd")
    expect(answer.get_by_text("1 of 2,000")).to_be_visible()
    expect(answer.locator("tbody tr")).to_have_count(50)
    expect(answer.locator("svg rect.bar")).to_have_count(29)
    expect(answer.locator("svg text").filter(has_text="99,971 more")).to_be_visible()
    answer.get_by_role("button", name="Next").click()
    expect(answer.locator("tbody tr").first).to_contain_text("g50")
