"""What an agent may spend: caps by question and by day, a person's consent, and one charge for one question."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dodona
from dodona.cli.agents import CuratorOracle
from dodona.curator.curator import Curator
from dodona.errors import DodonaError, InvalidArgument, Unavailable
from dodona.ledger.errors import KeyReused
from dodona.numbers import format_percent
from dodona.server.agents.spending import (
    AgentCap,
    AgentCaps,
    AgentQuestion,
    ConsentMissing,
    Deal,
    Document,
    Purse,
    make_caps,
)
from tests.server.agents.scene import COUNT, PROTOCOLS, Person, beside, price_of, scripted, spent
from tests.server.scene import make_dataset

WITHIN = 60
FREE_HAND = AgentCaps(question=Fraction(1), day=Fraction(1), consent=Fraction(1))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_dataset(tmp_path, epsilon="5", rows=2000)


@pytest.fixture
def curator(path: Path) -> Iterator[Curator]:
    with closing(dodona.open(path, analyst="ada")) as opened:
        yield opened


@pytest.fixture
def price(path: Path) -> Fraction:
    """Of each question, as they are different counts at the same accuracy."""
    return price_of(path, COUNT.format(age=1), within=WITHIN)


def question(age: int, **wishes: object) -> dict[str, Any]:
    return {"dataset": "stays", "question": COUNT.format(age=age), "within": WITHIN, "max_price": "100%"} | wishes


@scripted
async def test_a_day_takes_no_more_than_its_cap(curator, price) -> None:
    caps = AgentCaps(question=price, day=price * 7 / 2, consent=Fraction(1))
    async with beside(curator, caps) as agent:
        replies = [await agent.attempt("ask", **question(age)) for age in range(1, 9)]
    assert [answered for answered, _ in replies] == [True] * 3 + [False] * 5
    assert {reply["code"] for answered, reply in replies if not answered} == {"agent-cap"}
    assert spent(curator) == 3 * price


@scripted
async def test_a_day_takes_no_more_than_its_cap_from_an_agent_that_asks_everything_at_once(curator, price) -> None:
    caps = AgentCaps(question=price, day=price * 7 / 2, consent=Fraction(1))
    async with beside(curator, caps) as agent:
        replies = await asyncio.gather(*(agent.attempt("ask", **question(age)) for age in range(1, 9)))
    assert sum(answered for answered, _ in replies) == 3
    assert spent(curator) == 3 * price


@scripted
async def test_a_door_that_is_opened_again_knows_what_the_day_took(curator, price) -> None:
    caps = AgentCaps(question=price, day=price * 3 / 2, consent=Fraction(1))
    for age, answered in ((1, True), (2, False), (3, False)):
        async with beside(curator, caps) as agent:
            assert (await agent.attempt("ask", **question(age)))[0] is answered
    assert spent(curator) == price


@scripted
async def test_a_day_that_is_over_is_not_counted() -> None:
    oracle = Recorder(price=Fraction(1, 100), charges=[{"time": "2020-01-01T00:00:00+00:00", "share": "1"}])
    assert await Purse(make_caps(day="1%")).left_today(oracle, "stays") == Fraction(1, 100)


@pytest.mark.parametrize(("cap", "most"), [("question", "100%"), ("max_price", "0.0001%")])
@scripted
async def test_a_price_above_the_agents_or_the_owners_word_is_refused(curator, price, cap, most) -> None:
    caps = AgentCaps(question=price / 2, day=Fraction(1), consent=Fraction(1)) if cap == "question" else FREE_HAND
    async with beside(curator, caps) as agent:
        refusal = await agent.refused("ask", **question(1, max_price=most))
        offer = await agent.call("quote", dataset="stays", question=COUNT.format(age=1), within=WITHIN)
    assert refusal["code"] == "agent-cap"
    assert offer["allowed"] is (cap == "max_price")
    assert spent(curator) == 0


# --- Consent. ---


@pytest.mark.parametrize("protocol", PROTOCOLS)
@scripted
async def test_a_person_who_agrees_pays_what_was_shown(curator, price, protocol) -> None:
    person = Person()
    caps = AgentCaps(question=Fraction(1), day=Fraction(1), consent=price / 2)
    async with beside(curator, caps, person, protocol=protocol) as agent:
        answer = await agent.call("ask", **question(1))
        again = await agent.call("ask", **question(1))
    assert answer["source"] == "measured"
    assert again["source"] == "replayed"
    assert len(person.asked) == 1  # what is free needs no consent
    assert COUNT.format(age=1) in person.asked[0]
    assert person.asked[0].startswith(f"Pay {format_percent(price)} of the privacy budget of stays?")
    assert spent(curator) == price


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("person", [Person(pay=False), Person("decline"), Person("cancel"), None])
@scripted
async def test_without_consent_nothing_is_charged(curator, price, protocol, person) -> None:
    caps = AgentCaps(question=Fraction(1), day=Fraction(1), consent=price / 2)
    async with beside(curator, caps, person, protocol=protocol) as agent:
        refusal = await agent.refused("ask", **question(1))
    assert refusal["code"] == "consent-missing"
    assert ("cannot ask" in refusal["detail"]) is (person is None)
    assert spent(curator) == 0
    assert len(curator.history) == 0


@scripted
async def test_nobody_is_asked_about_a_price_that_is_refused_anyway(curator, price) -> None:
    person = Person()
    caps = AgentCaps(question=price / 2, day=Fraction(1), consent=Fraction(0))
    async with beside(curator, caps, person) as agent:
        await agent.refused("ask", **question(1))
    assert person.asked == []


@scripted
async def test_explain_needs_no_consent_as_it_is_free(curator, price) -> None:
    person = Person("decline")
    caps = AgentCaps(question=Fraction(1), day=Fraction(1), consent=Fraction(0))
    async with beside(curator, caps, person) as agent:
        explanation = await agent.call("ask", **question(1, question=f"EXPLAIN {COUNT.format(age=1)}"))
    assert person.asked == []
    assert format_percent(price) in str(explanation)
    assert spent(curator) == 0


@scripted
async def test_a_long_question_does_not_hide_the_price(curator) -> None:
    person = Person("decline")
    text = COUNT.format(age=1) + " AND age >= 1" * 400
    async with beside(curator, AgentCaps(question=Fraction(1), day=Fraction(1), consent=Fraction(0)), person) as agent:
        await agent.refused("ask", **question(1, question=text))
    assert person.asked[0].startswith("Pay ")
    assert len(person.asked[0]) < 2000


# --- One charge for one question. ---


class Recorder:
    """An oracle that notes how it is asked, and fails as it is told to."""

    def __init__(self, *, price: Fraction, faults: list[DodonaError] = (), charges: list[Document] = ()) -> None:  # type: ignore[assignment]
        self.price, self.faults, self.own = price, list(faults), list(charges)
        self.asked: list[tuple[Document, str]] = []

    async def quote(self, _: str, request: Document) -> Document:
        allowed = request["max_price"]
        return {"price": {"share": str(self.price), "epsilon": 0.1}, "affordable": True, "allowed": allowed}

    async def ask(self, _: str, request: Document, key: str) -> Document:
        self.asked.append((request, key))
        if self.faults:
            raise self.faults.pop(0)
        return {}

    async def charges(self, _: str) -> AsyncIterator[Document]:
        for charge in self.own:
            yield charge


ASKED = AgentQuestion(dataset="stays", text="SELECT count(*) FROM stays", within="1%")


@scripted
async def test_a_question_may_take_the_price_that_was_quoted_and_no_more() -> None:
    oracle, purse = Recorder(price=Fraction(1, 1000)), Purse(FREE_HAND)
    await purse.buy(oracle, await purse.deal(oracle, ASKED, "50%"))
    assert oracle.asked[0][0]["max_price"] == "1/1000"


@scripted
async def test_a_call_that_is_repeated_has_the_same_key() -> None:
    lost = Unavailable("The reply was lost.", charged=None)
    oracle, purse = Recorder(price=Fraction(1, 1000), faults=[lost]), Purse(FREE_HAND)
    with pytest.raises(Unavailable):
        await purse.buy(oracle, await purse.deal(oracle, ASKED, "50%"))
    fresh = Purse(FREE_HAND)  # another process, another conversation, another limit
    await fresh.buy(oracle, await fresh.deal(oracle, replace(ASKED), "2%"))
    assert oracle.asked[0][1] == oracle.asked[1][1]


@scripted
async def test_another_question_has_another_key() -> None:
    others = [
        AgentQuestion(dataset="visits", text=ASKED.text, within="1%"),
        AgentQuestion(dataset="stays", text=ASKED.text + " WHERE age > 1", within="1%"),
        AgentQuestion(dataset="stays", text=ASKED.text, within="2%"),
        AgentQuestion(dataset="stays", text=ASKED.text, within="1%", confidence=0.9),
    ]
    assert len({variant.key(0) for variant in (ASKED, *others)}) == 5


@scripted
async def test_a_question_can_be_asked_of_each_version_of_the_data() -> None:
    oracle, purse = Recorder(price=Fraction(1, 1000), faults=[KeyReused("k")]), Purse(FREE_HAND)
    await purse.buy(oracle, await purse.deal(oracle, ASKED, "50%"))
    assert [key for _, key in oracle.asked] == [ASKED.key(0), ASKED.key(1)]


@scripted
async def test_the_same_call_sent_four_times_at_once_is_charged_once(curator, price) -> None:
    async with beside(curator, FREE_HAND) as agent:
        replies = await asyncio.gather(*(agent.call("ask", **question(1)) for _ in range(4)))
    assert len({str(reply["data"]["rows"]) for reply in replies}) == 1
    assert len(curator.history) == 1
    assert spent(curator) == price


@scripted
async def test_an_agent_that_cancels_every_call_gets_no_more_than_its_day(curator, price) -> None:
    purse = Purse(AgentCaps(question=price, day=price * 7 / 2, consent=Fraction(1)))
    oracle = CuratorOracle({"stays": curator.for_analyst("ada", max_day=purse.caps.day)})
    for age in range(1, 11):
        asked = AgentQuestion(dataset="stays", text=COUNT.format(age=age), within=WITHIN)
        call = asyncio.ensure_future(purse.buy(oracle, Deal(question=asked, offer={}, price=price)))
        for _ in range(4):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait((call,))
    await asyncio.get_running_loop().shutdown_default_executor()  # what was begun is charged to the end
    assert spent(curator) == 3 * price


@scripted
async def test_two_doors_at_once_take_no_more_than_one_day(path, price) -> None:
    caps = AgentCaps(question=price, day=price * 7 / 2, consent=Fraction(1))
    with closing(dodona.open(path, analyst="ada")) as first, closing(dodona.open(path, analyst="ada")) as second:
        async with beside(first, caps) as door, beside(second, caps) as other:
            asked = [agent.attempt("ask", **question(2 * age + place))
                     for age in range(1, 6) for place, agent in enumerate((door, other))]  # fmt: skip
            replies = await asyncio.gather(*asked)
        assert sum(answered for answered, _ in replies) == 3
        refused = [reply for answered, reply in replies if not answered]
        assert {refusal["code"] for refusal in refused} <= {"agent-cap", "day-spent"}
        assert not any(refusal["charged"] for refusal in refused)
        assert spent(first) == 3 * price


class Forgetful(CuratorOracle):
    """Cannot say what is left once something was charged."""

    async def left(self, _: str) -> Fraction:
        raise Unavailable("The ledger cannot be read.")


class Broken(CuratorOracle):
    """Has a bug, whose message quotes the question."""

    async def ask(self, _: str, request: Document, __: str) -> Document:
        raise RuntimeError(request["question"])


@scripted
async def test_an_answer_that_was_paid_for_is_shown_whatever_fails_then(curator, price) -> None:
    async with beside(curator, FREE_HAND, kind=Forgetful) as agent:
        answer = await agent.call("ask", **question(1))
    assert (answer["source"], answer["left"], answer["left_today"]) == ("measured", None, None)
    assert spent(curator) == price


@scripted
async def test_a_bug_is_a_constant_text_that_does_not_claim_to_know_what_was_charged(curator) -> None:
    async with beside(curator, FREE_HAND, kind=Broken) as agent:
        answered, problem = await agent.attempt("ask", **question(1))
    assert not answered
    assert (problem["code"], problem["charged"]) == ("internal-fault", None)
    assert "SELECT" not in str(problem)


@pytest.mark.parametrize("cap", ["-1%", "101%", "much", "nan"])
def test_a_cap_that_is_no_share_is_refused(cap) -> None:
    with pytest.raises(InvalidArgument, match="day"):
        make_caps(day=cap)


def test_refusals_say_what_they_cost() -> None:
    for kind in (AgentCap, ConsentMissing):
        fault = kind(price=Fraction(1, 10), most=Fraction(1, 100), because="so")
        assert fault.charged is False
        assert "10%" in str(fault)
        assert "1%" in str(fault)
