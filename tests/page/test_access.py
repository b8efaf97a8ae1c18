"""Who cannot see, point, or sit at a large screen: accessibility rules, the keyboard alone, phones, and dark rooms."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.page.scene import WEB
from tests.page.test_trouble import fake
from tests.page.tour import TOUR, with_truth

BY_DAY = "SELECT admitted, count(*) FROM stays GROUP BY admitted"
BY_TWO = "SELECT diagnosis, stay, count(*) FROM stays GROUP BY diagnosis, stay"
ANALYST = ("Ask", "History", "Dashboards", "Requests", "What the budget means")
OWNER = ("Overview", "Charges", "Approvals", "Caps", "Check", "Audit")


class Judge:
    """Collects what violates a rule of accessibility, by view."""

    def __init__(self, rules) -> None:
        self.rules, self.found = rules, {}

    def __call__(self, name, visit) -> None:
        visit.page.wait_for_load_state("networkidle")
        self.found[name] = visit.axe(*self.rules)
        assert "⟦" not in visit.page.inner_text("body"), name  # a text that is not in the file of texts

    def settle(self, count):
        assert {view: faults for view, faults in self.found.items() if faults} == {}
        assert len(self.found) == count


SCHEMES = pytest.mark.parametrize(
    ("scheme", "rules"),
    [("light", ()), pytest.param("dark", ("color-contrast",), marks=pytest.mark.soak)],
    ids=["light", "dark"],
)


COLOURS = pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.soak)])


@SCHEMES
def test_no_view_of_an_analyst_violates_a_rule_of_accessibility(look, scheme, rules):
    judge = Judge(rules)
    ada = look("ada", color_scheme=scheme, reduced_motion="reduce")
    ada.page.get_by_role("button", name="Take the tour").click()
    judge("tour", ada)
    ada.page.get_by_role("button", name="Leave the tour").click()
    for question in (BY_DAY, BY_TWO, "SELECT sex, count(*) FROM stays GROUP BY sex"):
        answer = ada.ask(question)
        answer.get_by_text("How this was made").click()
        judge(question, ada)
    answer.get_by_role("button", name="Save to a dashboard").click()
    judge("save dialog", ada)
    ada.page.get_by_label("Dashboard", exact=True).fill(f"Seen {scheme}")
    ada.page.get_by_role("button", name="Save", exact=True).click()
    ada.write("SELECT sexx FROM stays")
    ada.page.get_by_role("alert").wait_for()
    judge("mistake", ada)
    for view in ANALYST:
        ada.go(view)
        judge(f"analyst {view}", ada)
    ada.page.get_by_role("button", name="theorem").first.click()
    ada.page.get_by_role("dialog").get_by_role("heading", name="Statement").wait_for()
    judge("theorem", ada)
    phone = look("ada", color_scheme=scheme, viewport={"width": 390, "height": 844})
    phone.ask(BY_TWO)  # the chart is wider than the screen, and scrolls
    judge("phone", phone)
    judge.settle(13)


@SCHEMES
def test_no_view_of_owners_auditors_and_strangers_violates_a_rule_of_accessibility(look, scheme, rules):
    judge = Judge(rules)
    grace = look("grace", door="owners", color_scheme=scheme, reduced_motion="reduce")
    for view in OWNER:
        grace.go(view)
        judge(f"owner {view}", grace)
    grace.go("Overview")
    for act in ("Raise the budget", "Close the dataset", "Admit an analyst"):
        grace.page.get_by_role("button", name=act).click()
        judge(act, grace)
        grace.page.get_by_role("button", name="Cancel").click()
    for view in ("New dataset", "Accounts", "Tokens"):
        grace.page.get_by_role("link", name=view, exact=True).click()
        judge(view, grace)
    draft(grace.page, f"seen-{scheme}")
    judge("review", grace)
    grace.page.get_by_role("button", name="Go on").click()
    judge("confirm", grace)
    iris = look("iris", color_scheme=scheme)
    iris.page.get_by_role("button", name="Verify the chain").click()
    iris.page.get_by_text("The chain holds").wait_for()
    judge("verified", iris)
    anybody = look(None, color_scheme=scheme)
    anybody.page.get_by_label("Your token").fill("wrong")
    judge("login", anybody)
    anybody.page.get_by_role("button", name="Log in", exact=True).click()
    anybody.page.get_by_role("alert").wait_for()
    judge("wrong token", anybody)
    judge.settle(17)


def draft(page, name):
    page.get_by_role("link", name="New dataset", exact=True).click()
    page.get_by_label("File or database", exact=True).select_option("visits.csv")
    page.get_by_label("Name of the dataset").fill(name)
    page.get_by_label("Protect").select_option("row")
    page.get_by_role("button", name="Draft the declaration").click()
    page.get_by_label("columns.visits.upper").wait_for()


# Which texts of charts are smaller than 12 pixels as they are seen, or reach out of their chart.
ILLEGIBLE = """() => [...document.querySelectorAll("svg.chart")].flatMap((chart) => {
  const room = chart.getBoundingClientRect();
  return [...chart.querySelectorAll("text")].flatMap((one) => {
    const box = one.getBoundingClientRect();
    const size = parseFloat(getComputedStyle(one).fontSize) * (room.width / chart.viewBox.baseVal.width);
    return size < 11.99 || box.left < room.left - 0.5 || box.right > room.right + 0.5 || box.bottom > room.bottom + 0.5
      ? [`${one.textContent}: ${size}, ${box.left - room.left} of ${room.width}`] : [];
  });
})"""


@pytest.mark.parametrize("width", [360, pytest.param(1280, marks=pytest.mark.soak)])
def test_texts_of_charts_are_legible_and_whole_on_every_screen(look, width):
    ada = look("ada", viewport={"width": width, "height": 800})
    for question in (
        BY_DAY,
        BY_TWO,
        "SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis",
        "SELECT avg(stay) FROM stays",
    ):
        ada.ask(question)
        expect(ada.answer.locator("svg.chart")).to_be_visible()
        assert ada.page.evaluate(ILLEGIBLE) == [], question
    odd = look("ada", dataset="odd", viewport={"width": width, "height": 800})
    odd.ask("SELECT mark, count(*) FROM odd GROUP BY mark")
    assert odd.page.evaluate(ILLEGIBLE) == []
    expect(odd.answer.locator("svg text").filter(has_text="…")).to_have_count(2)  # the two long labels
    many(odd, 100_000)
    expect(odd.answer.locator("svg text").filter(has_text="99,971 more")).to_be_visible()
    assert odd.page.evaluate(ILLEGIBLE) == []
    grace = look("grace", door="owners", viewport={"width": width, "height": 800})
    grace.page.get_by_role("img", name="Budget left by day").wait_for()
    assert grace.page.evaluate(ILLEGIBLE) == []


# The contrast of everything that stands for a number against what it stands on.
CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (text) => {
    const curve = (one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = parse(text).map((one) => curve(one / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = light(getComputedStyle(document.querySelector(".card")).backgroundColor);
  const against = (colour) => (Math.max(light(colour), ground) + 0.05) / (Math.min(light(colour), ground) + 0.05);
  const marks = "section.card > :not(.askgrid) svg.chart :is(rect:not(.cell, .apartcell), circle, .range)";
  return [...document.querySelectorAll(marks)].map((one) => {
    const { fill, stroke } = getComputedStyle(one);
    return Math.max(...[fill, stroke].filter((colour) => colour !== "none").map(against));
  });
}"""


# The contrast of each number of a heat map with the cell that it stands on.
CELLS = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const curve = (one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = colour.map((one) => curve(one / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const card = parse(getComputedStyle(document.querySelector(".card")).backgroundColor);
  const ink = light(parse(getComputedStyle(document.querySelector("section.answer svg text.label")).fill));
  return [...document.querySelectorAll("section.answer svg rect.cell")].map((cell) => {
    const style = getComputedStyle(cell);
    const part = Number(style.fillOpacity);
    const ground = light(parse(style.fill).map((one, place) => part * one + (1 - part) * card[place]));
    return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
  });
}"""


@COLOURS
def test_numbers_of_a_heat_map_can_be_read_on_every_cell(look, scheme):
    ada = look("ada", color_scheme=scheme)
    keys = [{"name": name, "kind": "label", "key": place} for place, name in enumerate("gh")]
    rows = [[f"g{n}", h, {"value": 10 * n, "low": 10 * n - 5, "high": 10 * n + 5}] for n in range(11) for h in "ab"]
    reply = json.dumps(fake(keys, rows))
    ada.page.route("**/answers", lambda route: route.fulfill(body=reply, content_type="application/json"))
    ada.ask("SELECT count(*) FROM stays")
    ratios = ada.page.evaluate(CELLS)
    assert len(ratios) == 22
    assert min(ratios) >= 4.5


@COLOURS
def test_bars_and_dots_stand_out_from_the_ground(look, scheme):
    ada = look("ada", color_scheme=scheme)
    for question in (BY_DAY, "SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis"):
        ada.ask(question)
        ratios = ada.page.evaluate(CONTRAST)
        assert len(ratios) > 12
        assert min(ratios) >= 3
    ada = look("ada", dataset="odd", color_scheme=scheme)
    many(ada, 100)
    assert min(ada.page.evaluate(CONTRAST)) >= 3
    grace = look("grace", door="owners", color_scheme=scheme)
    grace.page.get_by_role("img", name="Budget left by day").wait_for()
    assert min(grace.page.evaluate(CONTRAST)) >= 3


# Every part of a page that shows a share, a deviation or an epsilon, and has no link to a theorem.
UNEXPLAINED = """() => [...document.querySelectorAll("main section.card, main aside, dialog[open]")]
  .filter((one) => one.offsetParent !== null && !one.parentElement.closest("section.card"))
  .filter((one) => /[0-9]\\s*%|±|epsilon|delta|odds/.test(one.innerText))
  .filter((one) => !one.querySelector("button.link[aria-label^='why: '], button.link[aria-label^='theorem: ']"))
  .map((one) => one.innerText.slice(0, 200))"""
LINKED = """() => [...document.querySelectorAll("button.link[aria-label*=': ']")]
  .map((one) => one.ariaLabel.split(": ")[1])"""


def test_wherever_a_number_of_privacy_or_error_is_shown_its_theorem_is_one_click_away(look, server):
    linked = set()

    def judge(visit, name):
        visit.page.wait_for_load_state("networkidle")
        expect(visit.page.get_by_text("Looking up the price")).to_have_count(0)
        assert visit.page.evaluate(UNEXPLAINED) == [], name
        linked.update(visit.page.evaluate(LINKED))

    ada = look("ada")
    answer = ada.ask("SELECT sex, count(*), avg(stay) FROM stays GROUP BY sex")
    expect(ada.offer.get_by_role("button", name=re.compile("^why: ")).first).to_be_visible()  # it was looked up
    for kind in ("single", "simultaneous", "any_choice"):
        answer.get_by_label("Intervals", exact=True).select_option(kind)
        expect(answer.get_by_label("Intervals", exact=True)).to_be_enabled()
        judge(ada, kind)
    assert ada.offer.get_by_role("button", name=re.compile("^why: ")).count() >= 3  # the price, and each deviation
    expect(answer.locator("caption").get_by_role("button", name=re.compile("^why: "))).to_have_count(1)
    for view in ANALYST:
        ada.go(view)
        judge(ada, view)
    grace = look("grace", door="owners")
    for view in OWNER:
        grace.go(view)
        judge(grace, view)
    grace.go("Overview")
    for act in ("Raise the budget", "Close the dataset", "Admit an analyst"):
        grace.page.get_by_role("button", name=act).click()
        if act == "Raise the budget":
            grace.page.get_by_label(re.compile("New epsilon")).fill("3")
        if act == "Admit an analyst":
            grace.page.get_by_label("Name of the account").fill("carl")
        judge(grace, act)
        grace.page.get_by_role("button", name="Cancel").click()
    grace.page.get_by_role("row").filter(has_text="ben").get_by_role("button", name="Stop").click()
    judge(grace, "Stop")
    grace.page.get_by_role("button", name="Cancel").click()
    grace.page.get_by_role("link", name="New dataset", exact=True).click()
    judge(grace, "New dataset")
    with server.api("ada") as api:
        for name in linked:
            assert api.get(f"{server.analysts}/theory/{name}.md").status_code == 200, name
    assert len(linked) >= 8


def many(visit, count):
    """Show an answer of so many groups."""
    rows = [[f"g{number}", {"value": number, "low": number - 5, "high": number + 5}] for number in range(count)]
    reply = json.dumps(fake([{"name": "g", "kind": "label", "key": 0}], rows))
    visit.page.route("**/answers", lambda route: route.fulfill(body=reply, content_type="application/json"))
    visit.ask("SELECT count(*) FROM odd")
    visit.page.unroute("**/answers")


def test_on_a_phone_nothing_is_wider_than_the_screen(look):
    ada = look("ada", viewport={"width": 360, "height": 740}, has_touch=True)
    ada.ask("SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis")
    for view in ANALYST:
        ada.go(view)
        ada.page.wait_for_load_state("networkidle")
        assert ada.page.evaluate("() => document.documentElement.scrollWidth") <= 360, view
    odds = ada.page.get_by_role("group", name="How well somebody could guess")
    assert odds.evaluate("one => one.scrollWidth - one.clientWidth") <= 1  # the table is whole


def test_every_text_of_the_page_is_in_the_file_for_translation():
    texts = json.loads((WEB / "texts/en.json").read_text(encoding="utf-8"))
    used = set()
    for source in (WEB / "src").glob("*.js"):
        text = source.read_text(encoding="utf-8")
        used |= set(re.findall(r"""\bt\(\s*"([a-z0-9_.]+)\"""", text))
        used |= {
            key for pair in re.findall(r"""\bt\([^"()]*\? "([a-z0-9_.]+)" : "([a-z0-9_.]+)\"""", text) for key in pair
        }
    assert used - set(texts) == set()
    assert len(used) > 200


def test_the_truth_of_the_tour_is_that_of_the_made_up_rows():
    tour = json.loads(TOUR.read_text(encoding="utf-8"))
    assert with_truth(tour) == tour


def press(page, *keys: str):
    for key in keys:
        page.keyboard.press(key)


NAME = """() => {
  let e = document.activeElement;
  while (e.shadowRoot && e.shadowRoot.activeElement) e = e.shadowRoot.activeElement;
  const label = e.labels && e.labels.length ? e.labels[0].innerText : "";
  return (e.getAttribute("aria-label") || label || e.innerText || "").trim();
}"""


def tab_to(page, name, *, key="Tab"):
    """Press Tab until the element with a name has the focus."""
    for _ in range(200):
        page.keyboard.press(key)
        if page.evaluate(NAME) == name:
            return
    raise AssertionError(f"no way to {name} by {key}")


def test_a_newcomer_does_ten_tasks_with_the_keyboard_alone(look, server):
    ada = look(None)
    page = ada.page
    page.get_by_label("Your token").wait_for()
    # 1. Log in.
    tab_to(page, "Your token")
    page.keyboard.type(server.tokens["ada"])
    press(page, "Enter")
    expect(page.get_by_role("heading", name="Columns")).to_be_visible()
    # 2. Look at a column.
    tab_to_column(page, "age")
    press(page, "Enter")
    expect(page.get_by_text("0 to 110")).to_be_visible()
    # 3. Choose a question from lists.
    tab_to(page, "by")
    page.keyboard.type("diagnosis")
    expect(page.get_by_label("The question in SQL")).to_contain_text("GROUP BY diagnosis")
    # 4. Read the price.
    expect(ada.offer).to_contain_text(re.compile("of the budget|Free"))
    # 5. Set the accuracy.
    tab_to(page, "Accuracy")
    press(page, "ArrowRight")
    expect(page.get_by_label("Within")).to_have_value("1%")
    # 6. Ask.
    tab_to(page, "Confidence")
    press(page, "Tab", "Enter")
    expect(page.get_by_text("The answer is below.")).to_be_visible()
    # 7. Write SQL, and correct a mistake.
    tab_to(page, "Choose", key="Shift+Tab")
    press(page, "ArrowRight")
    tab_to(page, "Question in SQL")
    press(page, "Control+A")
    page.keyboard.insert_text("SELECT sexx, count(*) FROM stays GROUP BY sex")
    expect(page.get_by_role("button", name="Write sex")).to_be_visible()
    tab_to(page, "Write sex")
    press(page, "Enter")
    expect(page.get_by_role("alert")).not_to_be_visible()
    # 8. Ask from the editor.
    tab_to(page, "Question in SQL", key="Shift+Tab")
    press(page, "Escape", "Control+Enter")
    expect(ada.answer.locator("tbody tr").first).to_contain_text("female")
    # 9. See what the answer rests on.
    tab_to(page, "How this was made")
    press(page, "Enter")
    expect(page.get_by_text("Theorems")).to_be_visible()
    # 10. Find the question in the history.
    tab_to(page, "History", key="Shift+Tab")
    press(page, "Enter")
    tab_to(page, "Search")
    page.keyboard.type("diagnosis")
    expect(page.get_by_role("list").get_by_text("GROUP BY diagnosis").first).to_be_visible()


def tab_to_column(page, name):
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.querySelector?.('.name')?.innerText ?? ''") == name:
            return
    raise AssertionError(f"no way to the column {name} by Tab")
