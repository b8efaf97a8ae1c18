"""Private selection: the names of the candidates with the largest answers; their scores stay private."""

import itertools
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from fractions import Fraction
from functools import partial

from dodona.answer.results import Choice
from dodona.curator.desk import Desk, Purchase, affordable_epsilon, mark_errors_charged
from dodona.curator.request import Dataset
from dodona.errors import InvalidRequest
from dodona.ledger.entries import Release
from dodona.ledger.errors import KeyReused
from dodona.numbers import Exact, to_integer
from dodona.privacy.accountants import Accountant
from dodona.privacy.additive_noise import validate_noise_epsilon
from dodona.privacy.budget import FREE
from dodona.privacy.selection import Exponential, PermuteAndFlip, Selection, selection_sensitivity, stack_queries
from dodona.query.query import Query
from dodona.query.question import KeyLabel, PublicValue, Question, Total
from dodona.query.sensitivity import row_sensitivity, unit_sensitivity
from dodona.schema.partition import Partition, group_label
from dodona.schema.schema import Neighbours, Unit
from dodona.trusted.gate import release_choice

# --- Private selection: the candidates with the largest answers. ---


ReadQuestion = Callable[[object], Question]
_CONFIDENCE = 0.95
_LONGEST_TEXT = 10_000


def choose_candidates(  # noqa: PLR0913  a choice has this many sides
    desk: Desk,
    read: ReadQuestion,
    candidates: Mapping[str, Query] | str,
    *,
    epsilon: Exact,
    count: int,
    most: Fraction,
    key: str | None,
) -> Choice:
    """Return the names of the candidates with the largest answers; each of `count` choices costs ε/count."""
    names, query = _candidates(read, candidates)
    times = to_integer(count, argument="count", lower=1, upper=len(names))
    dataset = desk.dataset
    unit, ledger = dataset.schema.unit, dataset.ledger
    state = ledger.state()
    # In Rényi accounting the exponential mechanism costs a quarter of permute-and-flip.
    law = PermuteAndFlip if state.total.accountant is Accountant.PURE else Exponential

    def selecting(price: Fraction) -> Selection:
        return Selection(query, law.for_privacy(price / times, selection_sensitivity(query, unit)), times)

    selection = selecting(validate_noise_epsilon(epsilon))
    text = f"choose {times}: {candidates if isinstance(candidates, str) else ', '.join(names)}"[:_LONGEST_TEXT]
    purchase = Purchase(
        event=selection.event(unit),
        purpose=selection.purpose,
        deliver=partial(release_choice, selection, text=text),
        max_price=most,
        affordable=lambda fits: affordable_epsilon(
            lambda tried: ledger.share(selecting(tried).event(unit)), validate_noise_epsilon(epsilon), fits
        ),
    )
    price, source = FREE, "replayed"
    seen = state.releases
    chosen = _find_earlier_choice(dataset, selection) if key is None else _recall_choice(desk, selection, key)
    while chosen is None:
        bought = desk.buy_once(purchase, key=key, seen=seen)
        if bought is not None:
            chosen, price, source = bought.item, bought.price, "measured"
        else:  # another caller already received the same choice
            seen = ledger.state().releases
            chosen = _find_earlier_choice(dataset, selection)
    with mark_errors_charged() if source == "measured" else nullcontext():
        head = ledger.head
    worst = selection.choice.accuracy(_CONFIDENCE ** (1 / times), candidates=len(names)).within
    farthest = unit.size * _largest_row(query, unit) * (1 if isinstance(candidates, str) else 2)
    return Choice(
        names=tuple(names[int(number)] for number in chosen.values),
        price=price,
        source=source,
        mechanism=selection.spelled,
        within=worst * float(query.blocks[0].unit),
        confidence=_CONFIDENCE,
        receipt=chosen.receipt,
        head=head,
        about=dataset.about_promise(empty=worst >= farthest),
    )


def _largest_row(query: Query, unit: Unit) -> int:
    """Return how far one row, or one person of another table, moves a score; of groups, each row is in one."""
    rows = all(block.table is None for block in query.blocks)
    return (row_sensitivity(query, Neighbours.ADD_REMOVE) if rows else unit_sensitivity(query, unit)).linf


def _find_earlier_choice(dataset: Dataset, selection: Selection) -> Release | None:
    """Return an earlier release of the same choice at the same price."""
    earlier = dataset.ledger.released(selection.purpose, dataset.source.version)
    return next((release for release in earlier if release.mechanism == selection.spelled), None)


def _recall_choice(desk: Desk, selection: Selection, key: str) -> Release | None:
    """Return the choice that was bought under a key."""
    recalled = desk.recall(key)
    if recalled is None:
        return None
    receipt, release = recalled
    if receipt.purpose != selection.purpose:
        raise KeyReused(key)
    return release


def _candidates(read: ReadQuestion, candidates: Mapping[str, Query] | str) -> tuple[tuple[str, ...], Query]:
    if isinstance(candidates, str):
        return _groups(read(candidates))
    if not candidates:
        raise InvalidRequest("There are no candidates to choose from. Name one query or more.")
    return tuple(candidates), stack_queries(read(query).query for query in candidates.values())


def _groups(question: Question) -> tuple[tuple[str, ...], Query]:
    """Return the groups of a question with one count or sum, as candidates."""
    values = [column for column in question.columns if not isinstance(column.expression, KeyLabel)]
    if len(values) == 1 and isinstance(values[0].expression, PublicValue):
        raise InvalidRequest(
            f"{values[0].name} is {values[0].expression.value} in every group, whatever the rows are: there is nothing "
            "to choose. Choose by another count or sum, or leave out the condition that fixes it."
        )
    single = len(values) == len(question.query.blocks) == 1 and question.having is None
    if not single or not isinstance(values[0].expression, Total) or not question.keys:
        raise InvalidRequest(
            "To choose among groups write a question with GROUP BY and one count or sum and no HAVING, such as "
            "SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis."
        )
    if question.order or question.limit is not None or question.offset:
        raise InvalidRequest(
            "The largest groups are chosen, as many as `count` says. Leave out ORDER BY, LIMIT and OFFSET."
        )
    domain = question.domain
    labels = [
        [str(group_label(key, domain[key.attribute], group)) for group in range(key.groups)]
        if isinstance(key, Partition)
        else [*(label for label, _ in key.branches), key.otherwise]
        for key in question.keys
    ]
    return tuple(", ".join(group) for group in itertools.product(*labels)), question.query
