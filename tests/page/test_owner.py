"""What owners and auditors do on the page."""

import datetime as dt
import json
import re

from playwright.sync_api import expect

from tests.engines.server import held
from tests.page.scene import PASSWORD


def test_an_owner_sees_who_spent_what_and_what_an_act_means_before_it_is_done(look, server):
    with server.api("ada") as api:
        asked = {"question": "SELECT count(*) FROM stays WHERE emergency"}
        api.post("/datasets/hospital-stays/answers", json=asked, headers={"Idempotency-Key": "owner-sees"})
    grace = look("grace", door="owners")
    page = grace.page
    expect(page.get_by_role("img", name=re.compile("Budget left by day"))).to_be_visible()
    expect(page.get_by_text("There is one day to go by so far")).to_be_visible()
    page.get_by_role("button", name="Raise the budget").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("New epsilon")).fill("1")
    expect(dialog).to_contain_text("a budget is never lowered")
    expect(dialog.get_by_role("button", name="Raise the budget")).to_be_disabled()
    dialog.get_by_label(re.compile("New epsilon")).fill("3")
    expect(dialog).to_contain_text("grows from 7.4 to 20.11")
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Admit an analyst").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name of the account").fill("carl")
    dialog.get_by_label("May spend").fill("10%")
    expect(dialog).to_contain_text("carl may then spend up to 10% of the budget")
    dialog.get_by_role("button", name="Admit an analyst").click()
    row = page.get_by_role("row").filter(has_text="carl")
    expect(row).to_contain_text("10%")
    row.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("dialog")).to_contain_text("The 0% of the budget that carl spent stays spent")
    expect(page.get_by_role("dialog")).to_contain_text("one person's odds change by at most a factor of 7.4")
    page.get_by_role("dialog").get_by_role("button", name="Stop carl").click()
    expect(row).to_contain_text("stopped")
    grace.go("Charges")
    page.get_by_label("Search").fill("WHERE emergency")
    expect(page.get_by_role("row").filter(has_text="WHERE emergency")).to_contain_text("ada")


def test_the_burn_down_ends_at_what_is_left_and_its_forecast_says_how_sure_it_is(look):
    grace = look("grace", door="owners")
    page = grace.page
    today = dt.datetime.now(dt.UTC)
    charges = [
        {
            "number": 1,
            "time": (today - dt.timedelta(days=ago)).isoformat(),
            "share": share,
            "analyst": name,
            "text": "x",
        }
        for ago in range(20, 0, -1)
        for name, share in ((f"a{ago % 8}", "1/200"), ("often", "1/100" if ago % 2 else "1/400"))
    ]
    history = {"charges": charges, "total": len(charges), "next": None}
    spent = 20 / 200 + 10 / 100 + 10 / 400
    page.route("**/history*", lambda route: route.fulfill(json=history))

    def change(route):
        reply = route.fetch()
        document = reply.json() | {"left": "7/10", "spent": "3/10", "head": "another"}
        route.fulfill(response=reply, json=document)

    page.route("**/budget", change)
    page.reload()
    page.get_by_label("Your token").fill(grace.server.tokens["grace"])
    page.get_by_role("button", name="Log in", exact=True).click()
    # 70% left, at 1/200 + (1/100 + 1/400)/2 = 1.125% per day: 62 days; two standard errors are 0.2%, so 52 to 76 days
    said = page.get_by_text("At the mean pace of the last 14 days (1.13% per day) the budget lasts 62 more days")
    expect(said).to_be_visible()
    ends = re.search(r"it ends between (.+) and (.+)\.", said.inner_text())
    assert ends is not None
    days = [
        (dt.datetime.strptime(text, "%b %d, %Y").replace(tzinfo=dt.UTC).date() - today.date()).days
        for text in ends.groups()
    ]
    assert abs(days[0] - 52) <= 2
    assert abs(days[1] - 76) <= 2
    expect(page.locator(".legend span")).to_have_count(6)
    expect(page.locator(".legend")).to_contain_text("others")
    expect(page.locator("svg polygon.band")).to_have_count(1)
    expect(page.get_by_text(f"{100 * (0.3 - spent):.3g}% was spent by other means")).to_be_visible()
    page.get_by_text("By day, as a table").click()
    assert page.locator("details table tbody tr").first.locator("td").nth(1).inner_text() == "70%"
    expect(page.locator("details table tbody tr")).to_have_count(21)


def test_an_account_is_stopped_after_its_owner_read_what_that_means(look):
    page = look("grace", door="owners").page
    page.get_by_role("link", name="Accounts").click()
    row = page.get_by_role("row").filter(has_text="ben")
    row.get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("ben can no longer log in")
    dialog.get_by_role("button", name="Cancel").click()
    expect(row).not_to_contain_text("stopped")
    page.get_by_role("row").filter(has_text="grace").get_by_role("button", name="Stop").click()
    expect(dialog).to_contain_text("This is your own account")
    dialog.get_by_role("button", name="Cancel").click()


def test_a_cap_that_is_no_share_is_refused_and_not_explained(look):
    grace = look("grace", door="owners")
    grace.go("Caps")
    grace.page.get_by_label("Everyone").fill("abc")
    grace.page.get_by_role("button", name="Set the caps").click()
    expect(grace.page.get_by_role("alert")).to_contain_text("write a percentage")
    expect(grace.page.get_by_role("alert")).not_to_contain_text("Nothing was charged")  # it says what was not done
    expect(grace.page.get_by_text("All analysts together")).to_have_count(0)


def test_exact_counts_are_marked_private_and_only_on_the_owners_port(look):
    grace = look("grace", door="owners")
    grace.go("Check")
    grace.page.get_by_role("button", name="Check the rows").click()
    expect(grace.page.locator(".private")).to_contain_text("PRIVATE")
    expect(grace.page.locator(".private")).to_contain_text("100,000")
    expect(grace.page.get_by_role("row").filter(has_text="emergency")).to_contain_text("yes or no")
    grace.go("Ask")  # she is no analyst: nothing is wrong with the question
    expect(grace.offer).to_contain_text("There is no price for it.")
    elsewhere = look("grace")
    expect(elsewhere.page.get_by_role("link", name="Check", exact=True)).to_have_count(0)
    expect(elsewhere.page.get_by_text("open the owners' address")).to_be_visible()
    expect(elsewhere.page.get_by_role("button", name="Close the dataset")).to_have_count(0)


def test_accounts_and_tokens_are_made_and_ended(look):
    grace = look("grace", door="owners")
    page = grace.page
    page.get_by_role("link", name="Accounts").click()
    page.get_by_label("Name").fill("dora")
    page.get_by_label("Role").select_option("auditor")
    page.get_by_role("button", name="Add an account").click()
    row = page.get_by_role("row").filter(has_text="dora")
    expect(row).to_contain_text("auditor: hospital-stays")
    row.get_by_role("button", name="Tokens").click()
    page.get_by_label("What it is for").fill("laptop")
    page.get_by_role("button", name="Make a token").click()
    expect(page.get_by_text(re.compile("^dodona_"))).to_be_visible()
    page.get_by_role("button", name="I have it").click()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("button", name="Revoke")).to_have_count(0)
    page.keyboard.press("Escape")
    row.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop dora").click()
    expect(row).to_contain_text("stopped")


def test_a_new_dataset_is_drafted_reviewed_confirmed_served_and_closed(look, server):
    grace = look("grace", door="owners")
    page = grace.page
    page.get_by_role("link", name="New dataset").click()
    page.get_by_label("File or database", exact=True).select_option("visits.csv")
    page.get_by_label("Name of the dataset").fill("visits")
    page.get_by_label("Protect").select_option("row")
    page.get_by_role("button", name="Draft the declaration").click()
    value = page.get_by_label("columns.visits.upper")
    expect(value).to_have_value("200")
    expect(page.get_by_role("row").filter(has=value)).to_contain_text("Largest value of visits")
    value.fill("1000")
    page.get_by_role("button", name="Save the values").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    expect(page.get_by_role("button", name="Go on")).to_be_enabled()
    expect(value).to_have_value("1000")
    page.get_by_role("button", name="Check the rows").click()
    expect(page.get_by_text("rows that count")).to_be_visible()
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("button", name="Confirm and create the ledger").click()
    expect(page.get_by_text("visits is served.")).to_be_visible()
    page.get_by_role("button", name="Open it").click()
    expect(page.get_by_role("heading", name="Budget", exact=True)).to_be_visible()
    with server.api("grace") as api:
        columns = {column["name"]: column for column in api.get("/datasets/visits").json()["columns"]}
    assert columns["visits"]["upper"] == 1000
    page.get_by_role("button", name="Close the dataset").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("will never be spent")
    dialog.get_by_role("textbox").fill("visits")
    dialog.get_by_role("button", name="Close the dataset").click()
    expect(page.get_by_text("This dataset is closed")).to_be_visible()


CHOOSE_AT_ONCE = """() => new Promise((chosen) => {
  const watch = new MutationObserver(() => {
    const list = document.querySelector("select:has(option[value='visits.csv'])");
    if (!list) return;
    watch.disconnect();
    list.value = "visits.csv";
    list.dispatchEvent(new Event("change", { bubbles: true }));
    chosen();
  });
  watch.observe(document.body, { childList: true, subtree: true });
  [...document.querySelectorAll("a")].find((one) => one.textContent.trim() === "New dataset").click();
})"""


def test_a_table_that_is_chosen_as_soon_as_the_list_is_there_stays_chosen(look):
    page = look("grace", door="owners").page
    page.get_by_role("link", name="New dataset").wait_for()
    page.evaluate(CHOOSE_AT_ONCE)
    page.wait_for_timeout(500)  # what the page does after it was drawn, it does in a tenth of a second
    expect(page.get_by_label("File or database", exact=True)).to_have_value("visits.csv")


def test_a_table_of_a_database_is_drafted_confirmed_and_asked(look, server):
    each = range(6000)
    rows = {
        "ward": ["north", "south"] * 3000,
        "nights": [number % 20 for number in each],
        "patient": [number // 2 for number in each],
    }
    table = held("wards", rows, {"ward": "text", "nights": "integer", "patient": "integer"})
    grace = look("grace", door="owners")
    page = grace.page
    page.get_by_role("link", name="New dataset").click()
    page.get_by_label("File or database", exact=True).select_option("database")
    page.get_by_label("Name of the dataset").fill("wards")
    page.get_by_label("Name of the table").fill(table)
    page.get_by_label("Environment variable").fill("NO_SUCH_VARIABLE")
    page.get_by_label("Protect").select_option("person")
    page.get_by_label("Column that tells people apart").fill("patient")
    page.get_by_role("button", name="Draft the declaration").click()
    expect(page.get_by_role("alert")).to_contain_text("NO_SUCH_VARIABLE is not set")
    page.get_by_label("Environment variable").fill("WARDS_DATABASE")
    page.get_by_label("Name of the table").fill("no_such_table")
    page.get_by_role("button", name="Draft the declaration").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was charged")
    page.get_by_label("Name of the table").fill(table)
    page.get_by_role("button", name="Draft the declaration").click()
    value = page.get_by_label("columns.nights.upper")
    expect(value).to_have_value("20")
    value.fill("30")
    expect(page.get_by_role("button", name="Go on")).to_be_disabled()  # what is not saved would be lost
    page.get_by_label("unit.rows").fill("2")
    page.get_by_role("button", name="Save the values").click()
    expect(page.get_by_role("button", name="Go on")).to_be_enabled()
    page.get_by_text("The whole file").click()
    expect(page.get_by_text('url = "env:WARDS_DATABASE"')).to_be_visible()  # never the address itself
    page.get_by_role("button", name="Check the rows").click()
    expect(page.locator(".private .private .facts-row")).to_contain_text("6,000rows3,000people")
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("button", name="Confirm and create the ledger").click()
    expect(page.get_by_text("wards is served.")).to_be_visible()
    with server.api("grace", door="owners") as api:
        dataset = api.get("/datasets/wards").json()
    assert [column.get("upper") or column["labels"] for column in dataset["columns"]] == [["north", "south"], 30]
    assert (dataset["unit"]["protects"], dataset["unit"]["id"], dataset["unit"]["rows"]) == ("person", "patient", 2)
    page.get_by_role("button", name="Open it").click()
    expect(page.get_by_text("Nobody may spend from this budget yet.")).to_be_visible()
    expect(page.get_by_text("was spent by other means than a question")).to_be_visible()  # the draft chose the cap
    page.get_by_role("button", name="Admit an analyst").click()
    page.get_by_label("Name of the account").fill("grace")
    page.get_by_role("dialog").get_by_role("button", name="Admit an analyst").click()
    expect(page.get_by_role("row").filter(has_text="grace")).to_contain_text("100%")
    grace.go("Ask")
    grace.write(f"SELECT ward, count(*) FROM {table.split('.')[-1]} GROUP BY ward")  # noqa: S608  text of a question
    page.get_by_label("Within").fill("20%")
    labels = grace.ask().locator("tbody tr td:first-child").all_inner_texts()
    assert labels == ["north", "south", "<missing>", "<outside>"]


def test_an_auditor_computes_the_chain_in_the_browser_and_finds_a_noted_head(look, server):
    with server.api("ada") as api:
        asked = {"question": "SELECT count(*) FROM stays WHERE NOT emergency"}
        answer = api.post("/datasets/hospital-stays/answers", json=asked, headers={"Idempotency-Key": "audited"}).json()
    iris = look("iris")
    page = iris.page
    page.get_by_label("A head that you noted earlier").fill(answer["head"])
    expect(page.get_by_text("Verify the chain to look for it.")).to_be_visible()
    page.get_by_role("button", name="Verify the chain").click()
    expect(page.get_by_text(re.compile("The chain holds"))).to_be_visible()
    expect(page.get_by_text("It is in the chain, at entry")).to_be_visible()
    page.get_by_label("A head that you noted earlier").fill("0" * 64)
    expect(page.get_by_text("It is not in this chain")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export the entries").click()
    lines = [json.loads(line) for line in saved.value.path().read_text().splitlines()]
    assert lines[0]["text"] is None  # it holds the key of the cap on rows
    assert "cap_key" not in saved.value.path().read_text()
    assert answer["head"] in {line["hash"] for line in lines}


def test_a_changed_entry_breaks_the_chain(look):
    iris = look("iris")
    changed = []

    def change(route):
        reply = route.fetch()
        document = reply.json()
        for entry in document["entries"]:
            if entry["text"] is not None and not changed:
                changed.append(entry["number"])
                entry["text"] = entry["text"].replace('"', "'", 1)
        route.fulfill(response=reply, json=document)

    iris.page.route("**/ledger/entries*", change)
    iris.page.get_by_role("button", name="Verify the chain").click()
    expect(iris.page.get_by_text("The chain is broken at entry 2.")).to_be_visible()  # the first is its hash alone
    assert changed == [1]


def test_a_password_opens_a_session_that_survives_a_reload_and_makes_tokens(look):
    ada = look(None)
    page = ada.page
    page.get_by_role("tab", name="Password").click()
    page.get_by_label("Name").fill("ada")
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    page.get_by_role("link", name="Tokens").click()
    page.reload()
    page.get_by_label("What it is for").fill("notebook")
    page.get_by_role("button", name="Make a token").click()
    expect(page.get_by_text(re.compile("^dodona_"))).to_be_visible()
    page.get_by_role("button", name="I have it").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
