"""Curators of one open dataset for several analysts, free answers alone, and what was bought under a key."""

from __future__ import annotations

import threading
from fractions import Fraction

import pytest

from dodona.curator.curator import Curator
from dodona.errors import InvalidRequest
from dodona.ledger.errors import AnswerInterrupted, KeyReused, NotPermitted
from dodona.trusted.gate import CHECKING
from tests.server.scene import make_dataset

COUNT = "SELECT count(*) FROM stays WHERE age >= 40"


@pytest.fixture
def ada(tmp_path):
    import dodona

    path = make_dataset(tmp_path, analysts={"ada": "1", "bob": "1"})
    with dodona.open(path, analyst="ada") as curator:
        yield curator


def reads(curator: Curator) -> int:
    return curator._ladder.releases.seen


def test_analysts_of_one_open_dataset_share_what_was_learned_and_pay_for_themselves(ada: Curator):
    bob = ada.for_analyst("bob")
    first = ada.ask(COUNT, within="5%")
    again = bob.ask(COUNT, within="5%")
    assert (first.source, again.source) == ("measured", "replayed")
    assert bob._ladder.releases is ada._ladder.releases
    assert bob.ask("SELECT count(*) FROM stays WHERE age < 3", within="5%", fresh=True).price.share > 0
    spent = {analyst.name: analyst.spent for analyst in ada.budget.analysts}
    assert spent["bob"] > 0
    with pytest.raises(NotPermitted):
        ada.for_analyst("zoe")


def test_what_is_not_free_is_not_answered_and_nothing_is_charged(ada: Curator):
    head = ada.budget.head
    assert ada.ask_if_free(COUNT, within="5%", key="k") is None
    assert ada.budget.head == head
    bought = ada.ask(COUNT, within="5%", key="k")
    assert ada.ask_if_free(COUNT, within="5%", key="k").rows == bought.rows
    assert ada.ask_if_free(COUNT, within="5%", key="other").source == "replayed"
    assert ada.ask_if_free(COUNT, within="5%", fresh=True) is None
    assert ada.ask_if_free(COUNT, within="0.1%") is None
    with pytest.raises(KeyReused):
        ada.ask_if_free("SELECT count(*) FROM stays WHERE age < 7", within="5%", key="k")


def test_what_was_bought_under_a_key_is_told_again_without_its_question(ada: Curator):
    single = ada.ask("SELECT sex, avg(age) AS a FROM stays GROUP BY sex", within="20%", max_price="50%", key="one")
    several = ada.ask_many([COUNT, "SELECT avg(stay) FROM stays"], within="20%", max_price="50%", fresh=True, key="two")
    assert [answer.rows for answer in ada.recall("one")] == [single.rows]
    assert [answer.rows for answer in ada.recall("two")] == [answer.rows for answer in several]
    assert [answer.price.share for answer in ada.recall("two")] == [0, 0]
    assert ada.recall("never") is None
    assert ada.for_analyst("bob").recall("one") is None
    ada.choose("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon="0.5", key="choice")
    with pytest.raises(InvalidRequest):
        ada.recall("choice")


def test_a_release_that_another_thread_read_first_is_not_counted_twice(ada: Curator):
    def ask(number: int) -> None:
        ada.ask(f"SELECT count(*) FROM stays WHERE age >= {number}", within="5%", fresh=True)  # noqa: S608  a question

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    releases = ada._ladder.releases
    releases.follow()
    assert releases._expected == {}
    assert releases.draws.gaussian + releases.draws.laplace == 30


def test_weights_are_recorded_and_told_again_under_their_key(ada: Curator):
    questions = ["SELECT count(*) FROM stays WHERE urgent", "SELECT count(*) FROM stays WHERE sex = 'male'"]
    first = ada.ask_by_weights(questions, epsilon="5", max_price="50%", key="w")
    charges = ada.budget.charges
    again = ada.ask_by_weights(questions, epsilon="5", max_price="50%", key="w")
    assert [answer.value for answer in again.answers] == [answer.value for answer in first.answers]
    assert [answer.source for answer in again.answers] == [answer.source for answer in first.answers]
    assert (again.price.share, ada.budget.charges) == (0, charges)
    for other in (questions[:1], questions[::-1]):
        with pytest.raises(KeyReused):
            ada.ask_by_weights(other, epsilon="5", max_price="50%", key="w")
    with pytest.raises(KeyReused):
        ada.ask_by_weights(questions, epsilon="4", max_price="50%", key="w")


def test_weights_that_were_lost_with_their_process_say_so_and_are_not_charged_again(ada: Curator):
    from dodona.curator.weights import plan_weights

    questions = ["SELECT count(*) FROM stays WHERE urgent"]
    plan = plan_weights(ada.desk.dataset, questions=1, epsilon="5", columns=("urgent",))
    ledger = ada.desk.dataset.ledger
    receipt = ledger.reserve(plan.event, analyst="ada", key="lost", purpose=CHECKING, version="1")
    ledger.redeem(receipt)
    ledger.let_go(receipt)
    charges = ada.budget.charges
    with pytest.raises(AnswerInterrupted) as fault:
        ada.ask_by_weights(questions, epsilon="5", max_price="50%", key="lost")
    assert fault.value.charged
    assert ada.budget.charges == charges
    assert isinstance(ada.budget.spent, Fraction)
