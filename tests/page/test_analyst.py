"""What analysts do on the page: ask, look, download, keep, and request."""

import csv
import io
import json
import re

import pyarrow as pa
import pytest
from playwright.sync_api import expect

from tests.page.test_trouble import fake

BY_SEX = "SELECT sex, count(*) FROM stays GROUP BY sex"


def test_a_question_is_chosen_from_lists_priced_and_answered_with_error_bars(look):
    ada = look("ada")
    ada.page.get_by_label("by", exact=True).select_option("diagnosis")
    expect(ada.page.get_by_label("The question in SQL")).to_have_text(
        "SELECT diagnosis, count(*)\nFROM stays\nGROUP BY diagnosis"
    )
    ada.page.get_by_label("Only rows where").select_option("sex")
    ada.page.get_by_role("checkbox", name="female").check()
    expect(ada.offer).to_contain_text(re.compile(r"0\.\d+% of the budget"))
    expect(ada.offer.get_by_role("img", name=re.compile("Rehearsed"))).to_be_visible()
    answer = ada.ask()
    chart = answer.get_by_role("img", name=re.compile("Chart of count"))
    expect(chart.locator("rect.bar")).to_have_count(10)
    expect(chart.locator("rect.apartbar")).to_have_count(2)  # <missing> and <outside> stand apart
    assert chart.locator("line.range").count() == 3 * 12
    expect(answer.locator("tbody tr")).to_have_count(12)
    expect(ada.offer.get_by_text("Free", exact=True)).to_be_visible()
    expect(ada.offer).to_contain_text("It was answered before")


def test_a_question_over_what_one_call_may_take_is_asked_more_roughly_or_allowed(look):
    ada = look("ada")
    question = "SELECT emergency, avg(cost), median(cost) FROM stays GROUP BY emergency"
    ada.write(question)
    notice = ada.offer.locator(".notice.warn")
    expect(notice).to_contain_text("One call may take 10% here, so it is refused.")
    expect(notice).not_to_contain_text("max_price")  # a word of the client, for which there is a button
    expect(notice).not_to_contain_text("within=")
    rougher = notice.get_by_role("button", name=re.compile("^Ask within .*% for "))
    wanted = rougher.inner_text().split()[2]
    rougher.click()
    expect(ada.page.get_by_label("Within")).to_have_value(wanted)
    expect(notice).to_have_count(0)
    ada.page.get_by_label("Within").fill("0.5%")
    ada.page.get_by_role("button", name="Ask", exact=True).click()
    refusal = ada.page.get_by_role("alert")
    expect(refusal).to_contain_text("Nothing was charged.")
    refusal.get_by_role("button", name=re.compile("^Allow up to ")).click()
    expect(notice).to_have_count(0)
    sent = []

    def answer(route):
        sent.append(route.request.post_data_json)
        route.fulfill(json=fake([], [[{"value": 1, "low": 0, "high": 2}]]))

    ada.page.route("**/answers", answer)
    ada.ask()
    ada.write(question + " -- another")
    expect(notice).to_be_visible()  # what was allowed was for that question alone
    assert [float(body["max_price"].strip("%")) > 10 for body in sent] == [True]


def show(visit, keys, rows, further=None):
    """Show an answer that a server might send."""
    columns = [{"name": "g", "kind": "label", "key": 0}]
    reply = fake(columns, rows) | {"keys": keys} | (further or {})
    visit.page.route("**/answers", lambda route: route.fulfill(body=json.dumps(reply), content_type="application/json"))
    answer = visit.ask("SELECT count(*) FROM stays")
    visit.page.unroute("**/answers")
    return answer


def estimate(value, low, high):
    return {"value": value, "low": low, "high": high}


FEW = "sum: 2 of 4 values rest on too few rows to say more than the public range."


def test_groups_of_too_few_rows_stretch_no_axis_and_stand_for_no_value(look):
    rows = [
        ["a", estimate(2.5, 2.25, 2.75)],
        ["b", estimate(30.0, 0.0, 60.0)],
        ["c", estimate(7.124, 5.01, 9.33)],
        ["<missing>", estimate(60.0, 0.0, 60.0)],
    ]
    ada = look("ada")
    answer = show(ada, [], rows, {"warnings": [FEW]})
    expect(answer.locator("svg rect.bar")).to_have_count(2)
    expect(answer.locator("svg rect.apartbar")).to_have_count(0)
    expect(answer.locator("svg text").filter(has_text="too few rows")).to_have_count(2)
    ticks = answer.locator("svg text.tick").filter(has_text=re.compile(r"^\d+$")).all_text_contents()
    assert max(map(int, ticks)) <= 9
    cells = [row.locator("td").all_inner_texts() for row in answer.locator("tbody tr").all()]
    assert cells[0] == ["a", "2.500", "2.250 to 2.750"]  # as many digits as a hundredth of the shortest interval has
    assert cells[2] == ["c", "7.124", "5.010 to 9.330"]
    assert answer.locator("td.strong").all_inner_texts() == ["2.500", "7.124"]
    dates = [{"type": "date", "values": ["2024-01-01", "2024-02-01", "2024-03-01", None]}]
    answer = show(ada, dates, rows, {"warnings": [FEW]})
    expect(answer.locator("svg circle.dot")).to_have_count(2)
    expect(answer.locator("svg circle.apartdot")).to_have_count(0)
    expect(answer.locator("svg polyline.curve")).to_have_count(2)  # broken where nothing is known


def test_digits_that_noise_covers_are_not_shown(look):
    answer = show(look("ada"), [], [["a", estimate(6875.7123, 6379.3, 7372.1)], ["b", estimate(-0.2, -496.6, 496.2)]])
    assert answer.locator("tbody tr").first.locator("td").all_inner_texts() == ["a", "6,876", "6,379 to 7,373"]
    assert answer.locator("tbody tr").nth(1).locator("td").all_inner_texts() == ["b", "0", "-497 to 497"]


def test_a_line_is_drawn_in_the_order_of_time_and_joins_no_chosen_rows(look):
    ada = look("ada")
    months = ["2024-05", "2024-01", "2024-02"]
    rows = [[month, estimate(9 - place, 8 - place, 10 - place)] for place, month in enumerate(months)]
    keys = [{"type": "date", "values": [f"{month}-01" for month in months]}]
    answer = show(ada, keys, rows)
    dots = answer.locator("svg circle.dot")
    at = {dot.locator("title").text_content()[:7]: float(dot.get_attribute("cx")) for dot in dots.all()}
    assert at["2024-01"] < at["2024-02"] < at["2024-05"]
    assert at["2024-05"] - at["2024-02"] > 2.5 * (at["2024-02"] - at["2024-01"])  # three months are three times one
    answer = show(ada, keys, rows, {"selected": True})
    expect(answer.locator("svg polyline")).to_have_count(0)
    expect(answer.locator("svg rect.bar")).to_have_count(3)


def test_what_is_left_is_drawn_as_what_is_left_for_the_reader(look):
    ben = look("ben")  # may spend a quarter
    line = ben.page.get_by_role("navigation", name="Views of the dataset").locator(".budgetline")
    expect(line).to_contain_text("left for you")
    left = float(re.search(r"([\d.]+)%", line.inner_text())[1])
    assert left <= 25
    assert float(line.locator("rect.used").get_attribute("width")) == pytest.approx(100 - left, abs=0.1)


def test_a_condition_that_says_nothing_yet_leaves_the_question_as_it_was(look):
    ada = look("ada")
    ada.page.get_by_label("Only rows where").select_option("emergency")
    shown = ada.page.get_by_label("The question in SQL")
    expect(shown).to_have_text("SELECT sex, count(*)\nFROM stays\nGROUP BY sex")
    ada.page.get_by_label("is", exact=True).select_option("true")
    expect(shown).to_contain_text("WHERE emergency = true")
    ada.page.get_by_label("is", exact=True).select_option("anything")
    expect(shown).not_to_contain_text("WHERE")


def test_times_are_named_chosen_and_drawn_as_a_line(look):
    ada = look("ada", dataset="odd")
    column = ada.page.locator("details.column").filter(has_text="seen")
    column.locator("summary").click()
    expect(column).to_contain_text("2024-01-01 00:00 to 2024-01-02 23:00, in steps of 1 h")
    ada.page.get_by_label("by", exact=True).select_option("seen")
    ada.page.get_by_label("Only rows where").select_option("seen")
    ada.page.get_by_label("from", exact=True).fill("2024-01-01T06:00")
    expect(ada.page.get_by_label("The question in SQL")).to_have_text(
        "SELECT seen, count(*)\nFROM odd\nWHERE seen >= '2024-01-01 06:00'\nGROUP BY seen"
    )
    answer = ada.ask()
    expect(answer.locator("svg circle.dot")).to_have_count(2)
    expect(answer.locator("svg polyline.curve")).to_have_count(1)


def test_further_tables_are_shown_and_joined(look):
    ada = look(None, dataset="odd")
    joined = "private; about 900 rows, of each person one row. Its columns may be asked: JOIN people USING (person)."

    def change(route):
        reply = route.fetch()
        document = reply.json()
        document["tables"] = [
            {"name": "people", "columns": ["mark"], "how": joined},
            {"name": "calls", "columns": ["large"], "how": "private; about 900 rows, of each person at most 3 rows."},
            {"name": "towns", "columns": ["town", "region"], "how": "public, 12 rows; JOIN towns ON a column = town."},
        ]
        route.fulfill(response=reply, json=document)

    ada.page.route(re.compile(r"/datasets/odd$"), change)
    ada.page.get_by_label("Your token").fill(ada.server.tokens["ada"])
    ada.page.get_by_role("button", name="Log in", exact=True).click()
    towns = ada.page.locator("details.column").filter(has_text="towns")
    towns.locator("summary").click()
    expect(towns).to_contain_text("public, 12 rows")
    expect(ada.page.get_by_label("The question in SQL")).to_have_text(
        "SELECT mark, count(*)\nFROM odd\nJOIN people USING (person)\nGROUP BY mark"
    )
    expect(ada.page.get_by_label("Only rows where").locator("option")).to_have_text(
        ["add a condition …", "mark", "seen"]  # `large` is in a table that cannot be joined
    )


def test_a_mistake_is_underlined_and_one_button_corrects_it(look):
    ada = look("ada")
    ada.write("SELECT sexx, count(*) FROM stays GROUP BY sexx")
    problem = ada.page.get_by_role("alert")
    expect(problem).to_contain_text("There is no column sexx")
    expect(problem).to_contain_text("Nothing was charged.")
    expect(ada.page.locator(".cm-wrong")).to_have_text("sexx")
    ada.page.get_by_role("button", name="Write sex").click()
    ada.page.get_by_role("button", name="Write sex").click()  # the second place
    expect(problem).not_to_be_visible()
    expect(ada.editor).to_have_text(BY_SEX)
    expect(ada.offer.locator(".offer-price strong")).to_be_visible()


def test_the_button_writes_what_the_message_says(look):
    ada = look("ada")
    ada.write("SELECT avg(aeg) FROM stays")  # as near to sex as to age, letter by letter
    expect(ada.page.get_by_role("alert")).to_contain_text("Write age;")
    ada.page.get_by_role("button", name="Write age").click()
    expect(ada.editor).to_have_text("SELECT avg(age) FROM stays")


def test_rows_that_noise_selected_are_said_to_be_and_held_by_intervals_for_all_values(look):
    answer = look("ada").ask("SELECT diagnosis, count(*) AS n FROM stays GROUP BY diagnosis ORDER BY n DESC LIMIT 2")
    expect(answer).to_contain_text("Noisy values decided which rows are shown")
    expect(answer.locator("caption")).to_contain_text("if its row was named beforehand")
    answer.get_by_label("Intervals", exact=True).select_option("simultaneous")
    expect(answer.locator("caption")).to_contain_text("All intervals together hold")
    expect(answer).not_to_contain_text("Noisy values decided")


def test_the_editor_completes_names_and_labels_of_the_schema(look):
    ada = look("ada")
    ada.write("SELECT count(*) FROM stays WHERE ")
    ada.page.keyboard.type("diag")
    expect(ada.page.get_by_role("option", name=re.compile("^diagnosis"))).to_be_visible()
    ada.page.wait_for_timeout(200)  # a list that has just opened takes no key, so that nothing is chosen by mistake
    ada.page.keyboard.press("Enter")
    ada.page.keyboard.type(" = 'stro")
    expect(ada.page.get_by_role("option", name=re.compile("^'stroke'"))).to_be_visible()
    ada.page.wait_for_timeout(200)
    ada.page.keyboard.press("Enter")
    expect(ada.editor).to_contain_text("WHERE diagnosis = 'stroke'")


def test_a_list_of_completions_does_not_stay_open_over_what_comes_next(look):
    ada = look("ada")
    for leave in (
        lambda: ada.page.get_by_role("button", name=re.compile("^Ask")).focus(),
        lambda: ada.page.keyboard.press("Control+Enter"),
    ):
        ada.write("SELECT count(*) FROM stays GROUP BY ")
        ada.page.keyboard.insert_text("sex")  # the list is made a moment after typing
        leave()
        ada.page.wait_for_timeout(600)
        expect(ada.page.get_by_role("option", name=re.compile("^sex"))).to_have_count(0)


def test_an_answer_that_reuses_noise_says_so_in_words_of_the_page(look):
    ada = look("ada")
    for _ in range(2):
        answer = ada.ask("SELECT sex, count(*) FROM stays WHERE age < 30 GROUP BY sex")
    expect(answer).to_contain_text("This answer reuses the noise of earlier ones.")
    expect(answer).not_to_contain_text("any_choice")
    answer.get_by_label("Intervals", exact=True).select_option("any_choice")
    expect(answer).not_to_contain_text("This answer reuses")


def test_lines_over_time_heat_maps_and_single_values_show_their_intervals(look):
    ada = look("ada")
    answer = ada.ask("SELECT admitted, count(*) FROM stays GROUP BY admitted")
    expect(answer.locator("svg circle.dot")).to_have_count(24)
    expect(answer.locator("svg circle.apartdot")).to_have_count(2)
    expect(answer.locator("svg polygon.band")).to_have_count(1)
    answer = ada.ask("SELECT sex, emergency, count(*) FROM stays GROUP BY sex, emergency")
    expect(answer.locator("svg rect.cell")).to_have_count(6)
    expect(answer.locator("svg rect.apartcell")).to_have_count(14)
    assert answer.locator("svg .range").count() == 3 * 20
    answer = ada.ask("SELECT avg(stay) FROM stays")
    expect(answer.locator(".figure")).to_contain_text("±")
    expect(answer.locator("svg .range")).to_have_count(3)


def test_intervals_for_all_values_at_once_are_wider_and_free(look):
    ada = look("ada")
    answer = ada.ask(BY_SEX)
    cell = answer.locator("tbody tr").first.locator("td").nth(2)
    before = cell.inner_text()
    answer.get_by_label("Intervals", exact=True).select_option("simultaneous")
    expect(cell).not_to_have_text(before)
    width = [[int(end.replace(",", "")) for end in text.split(" to ")] for text in (before, cell.inner_text())]
    assert width[1][1] - width[1][0] > width[0][1] - width[0][0]
    answer.get_by_label("Intervals", exact=True).select_option("population")  # not known where people have several rows
    expect(answer.get_by_role("alert")).to_contain_text("no interval for the population is known")


def test_intervals_for_the_population_are_wider_and_free(look):
    answer = look("ada", dataset="odd").ask("SELECT mark, count(*) FROM odd GROUP BY mark")
    cell = answer.locator("tbody tr").nth(2).locator("td").nth(2)
    before = cell.inner_text()
    answer.get_by_label("Intervals", exact=True).select_option("population")
    expect(cell).not_to_have_text(before)
    ends = [[float(end.replace(",", "")) for end in text.split(" to ")] for text in (before, cell.inner_text())]
    assert ends[1][0] < ends[0][0] < ends[0][1] < ends[1][1]
    expect(answer).to_contain_text("For those whom the table was sampled from")


def test_an_answer_is_downloaded_as_a_table_a_picture_and_a_question(look):
    ada = look("ada")
    answer = ada.ask(BY_SEX)
    shown = answer.locator("tbody tr").first.locator("td").nth(1).inner_text().replace(",", "")

    def fetched(name: str) -> bytes:
        with ada.page.expect_download() as download:
            answer.get_by_role("button", name=name, exact=True).click()
        return download.value.path().read_bytes()

    rows = list(csv.reader(io.StringIO(fetched("CSV").decode())))
    assert rows[0] == ["sex", "count", "count_low", "count_high"]
    assert (rows[1][0], round(float(rows[1][1]))) == ("female", int(shown))  # a file has every digit
    assert pa.ipc.open_stream(fetched("Arrow")).read_all().column("count").to_pylist()[0] == float(rows[1][1])
    assert fetched("PNG").startswith(b"\x89PNG")
    assert fetched("SQL").decode() == BY_SEX + "\n"
    answer.get_by_role("button", name="Python").click()
    expect(ada.page.get_by_role("dialog")).to_contain_text(f'data.ask("{BY_SEX}", within="0.5%")')


def test_history_is_searched_noted_and_shown_again_for_free(look, server):
    ada = look("ada")
    ada.ask("SELECT count(*) FROM stays WHERE age < 18")
    ada.go("History")
    ada.page.get_by_label("Search").fill("age < 18")
    charge = ada.page.get_by_role("listitem").filter(has_text="age < 18")
    expect(charge).to_have_count(1)
    charge.get_by_role("button", name="Add a note").click()
    expect(charge.get_by_label("Note")).to_be_focused()
    charge.get_by_label("Note").fill("children, for the report")
    charge.get_by_role("button", name="Save").click()
    expect(charge.get_by_role("button", name="Change the note")).to_be_focused()
    expect(charge.locator(".note")).to_have_text("children, for the report")
    with server.api("ada") as api:
        before = api.get("/datasets/hospital-stays/budget").json()["spent"]
    charge.get_by_role("button", name="Show again, for free").click()
    expect(ada.editor).to_have_text("SELECT count(*) FROM stays WHERE age < 18")
    expect(ada.answer.locator(".figure")).to_be_visible()
    with server.api("ada") as api:
        assert api.get("/datasets/hospital-stays/budget").json()["spent"] == before
    with server.api("ben") as api:  # a note is for its writer alone
        assert api.get("/datasets/hospital-stays/saved/notes").json() == {"saved": []}


def test_a_dashboard_is_refreshed_for_free(look, server):
    ada = look("ada")
    answer = ada.ask(BY_SEX)
    answer.get_by_role("button", name="Save to a dashboard").click()
    ada.page.get_by_label("Dashboard", exact=True).fill("Overview")
    ada.page.get_by_label("Title of the chart").fill("Stays by sex")
    ada.page.get_by_role("button", name="Save", exact=True).click()
    with server.api("ada") as api:
        before = api.get("/datasets/hospital-stays/budget").json()["spent"]
        ada.go("Dashboards")
        card = ada.page.get_by_role("region", name="Stays by sex")
        expect(card.get_by_role("img", name=re.compile("Chart of count"))).to_be_visible()
        ada.page.get_by_role("button", name="Refresh").click()
        expect(card.get_by_role("img", name=re.compile("Chart of count"))).to_be_visible()
        assert api.get("/datasets/hospital-stays/budget").json()["spent"] == before
        body = {"content": {"cards": [{"question": "SELECT count(*) FROM stays WHERE cost > 100", "title": "New"}]}}
        assert api.put("/datasets/hospital-stays/saved/dashboards/Overview", json=body).status_code == 200
    ada.page.reload()
    ada.page.get_by_label("Your token").fill(server.tokens["ada"])
    ada.page.get_by_role("button", name="Log in", exact=True).click()
    changed = ada.page.locator(".notice").filter(has_text="To measure this again would take")
    expect(changed.get_by_role("button", name="why: filters")).to_be_visible()  # it never pays by itself


def test_a_question_over_a_cap_is_refused_requested_granted_and_asked(look, server):
    ada, grace = look("ada"), look("grace", door="owners")
    try:
        grace.go("Caps")
        grace.page.get_by_label("One question").fill("0.01%")
        grace.page.get_by_label("Analysts may ask me").check()
        grace.page.get_by_role("button", name="Set the caps").click()
        expect(grace.page.get_by_text("The caps hold from now on.")).to_be_visible()
        ada.page.reload()
        ada.page.get_by_label("Your token").fill(server.tokens["ada"])
        ada.page.get_by_role("button", name="Log in", exact=True).click()
        ada.write("SELECT count(*) FROM stays WHERE age > 77")
        expect(ada.offer).to_contain_text("so it would be refused")
        ada.page.get_by_role("button", name="Ask", exact=True).click()
        expect(ada.page.get_by_role("alert")).to_contain_text("the owner allows 0.01%")
        expect(ada.page.get_by_role("alert")).not_to_contain_text("request_approval")  # there is a button for it
        ada.page.get_by_role("button", name="Ask the owner to allow it").click()
        expect(ada.page.get_by_text("The owner was asked")).to_be_visible()
        grace.go("Approvals")
        waiting = grace.page.get_by_role("listitem").filter(has_text="age > 77")
        expect(waiting).to_contain_text("ada may spend")
        waiting.get_by_role("button", name="Grant").click()
        expect(waiting).to_contain_text("Decided by grace.")
        ada.go("Requests")
        ada.page.get_by_role("button", name="Go on and ask it").click()
        answer = ada.ask()
        expect(answer.locator(".figure")).to_be_visible()
    finally:
        with server.api("grace", door="owners") as api:
            assert api.put("/datasets/hospital-stays/limits", json={}).status_code == 200


def test_the_tour_shows_the_truth_beside_the_answers(look):
    ben = look("ben")
    ben.page.get_by_role("button", name="Take the tour").click()
    answer = ben.ask()
    truth = [int(cell.replace(",", "")) for cell in answer.locator("td.truth").all_inner_texts()]
    assert len(truth) == 12
    assert sum(truth) == 100_000
    for _ in range(4):
        ben.page.get_by_role("button", name="Next", exact=True).click()
    expect(ben.page.get_by_text("5 of 5")).to_be_visible()
    ben.page.locator(".tour").get_by_role("link", name="What the budget means").click()
    expect(ben.page.get_by_text("One person's odds change by at most a factor of 7.4")).to_be_visible()
    ben.page.get_by_role("button", name="theorem").first.click()
    expect(ben.page.get_by_role("dialog")).to_contain_text("no test has a true positive rate above")
