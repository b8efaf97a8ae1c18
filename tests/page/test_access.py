"""Who cannot see, point, or sit at a large screen: accessibility rules, the keyboard alone, phones, and dark rooms."""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.page.scene import WEB
from tests.page.tour import TOUR, with_truth

ANALYST = ("Ask", "History", "Dashboards", "Requests", "What the budget means")
OWNER = ("Overview", "Charges", "Approvals", "Caps", "Check", "Audit")


@pytest.mark.parametrize(("scheme", "rules"), [("light", ()), ("dark", ("color-contrast",))])
def test_no_view_violates_a_rule_of_accessibility(look, scheme, rules):
    found = {}
    ada = look("ada", color_scheme=scheme, reduced_motion="reduce")
    ada.ask("SELECT sex, count(*) FROM stays GROUP BY sex")
    for view in ANALYST:
        ada.go(view)
        ada.page.wait_for_load_state("networkidle")
        found[f"analyst {view}"] = ada.axe(*rules)
    ada.go("What the budget means")
    ada.page.get_by_role("button", name="theorem").first.click()
    ada.page.get_by_role("dialog").get_by_role("heading", name="Statement").wait_for()
    found["theorem"] = ada.axe(*rules)
    grace = look("grace", door="owners", color_scheme=scheme, reduced_motion="reduce")
    for view in OWNER:
        grace.go(view)
        grace.page.wait_for_load_state("networkidle")
        found[f"owner {view}"] = grace.axe(*rules)
    for view in ("New dataset", "Accounts", "Tokens"):
        grace.page.get_by_role("link", name=view, exact=True).click()
        grace.page.wait_for_load_state("networkidle")
        found[view] = grace.axe(*rules)
    anybody = look(None, color_scheme=scheme)
    anybody.page.get_by_label("Your token").wait_for()
    found["login"] = anybody.axe(*rules)
    assert {view: faults for view, faults in found.items() if faults} == {}


def test_on_a_phone_nothing_is_wider_than_the_screen(look):
    ada = look("ada", viewport={"width": 360, "height": 740}, has_touch=True)
    ada.ask("SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis")
    for view in ANALYST:
        ada.go(view)
        ada.page.wait_for_load_state("networkidle")
        assert ada.page.evaluate("() => document.documentElement.scrollWidth") <= 360, view


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
