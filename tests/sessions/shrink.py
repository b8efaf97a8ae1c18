"""Makes a failing session small, and writes it as Python that can be pasted.

Noise is drawn anew each time, so a session that breaks an invariant need not break it always: each candidate is tried
several times.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.sessions.dataset import FILES, Dataset, Request, people_of, table
from tests.sessions.question import Aggregate, And, Arithmetic, Condition, Not, Or, Question
from tests.sessions.run import Broken, run
from tests.sessions.session import (
    Above,
    Anew,
    Ask,
    AskMany,
    Choose,
    Compute,
    Drill,
    Prepare,
    Raise,
    Renew,
    Reopen,
    Session,
    Step,
    Stop,
    Synthesize,
    Threads,
    Weigh,
    Wrong,
)
from tests.sessions.shapes import Shape

if TYPE_CHECKING:
    import pandas as pd

TRIES = 3
SECONDS = 120.0
"""So much processor time is spent on making a session small."""


def broken(session: Session, tries: int = TRIES) -> Broken | None:
    """Return how a session breaks an invariant in one of some tries; None where it does not."""
    for _ in range(tries):
        try:
            run(session)
        except Broken as failure:
            return failure
        except Exception as fault:  # noqa: BLE001  the smaller session may make no sense to this driver
            failure = Broken("the driver", f"{type(fault).__name__}: {fault}")
            failure.__cause__ = fault
            return failure
    return None


def shrunk(
    session: Session, found: Broken, *, fails: Callable[[Session], Broken | None] = broken
) -> tuple[Session, Broken]:
    """Return a small session that breaks the same invariant alike, and how; as small as there was time for."""
    limit = time.process_time() + SECONDS
    session = _until(session, found)
    while True:
        for smaller in candidates(session):
            if time.process_time() > limit:
                return session, found
            again = fails(smaller)
            if again is not None and again.kind == found.kind:
                session, found = _until(smaller, again), again
                break
        else:
            return session, found


def _until(session: Session, found: Broken) -> Session:
    """Return a session without what comes after the step that broke."""
    return session if found.step < 0 else replace(session, steps=session.steps[: found.step + 1])


def candidates(session: Session) -> Iterator[Session]:
    """Yield simpler sessions, the much simpler ones first."""
    steps = session.steps
    size = len(steps) // 2
    while size:
        for start in range(0, len(steps), size):
            yield replace(session, steps=steps[:start] + steps[start + size :])
        size //= 2
    for smaller in _smaller_datasets(session):
        yield replace(session, dataset=smaller)
    for place, step in enumerate(steps):
        for simpler in _simpler(step):
            yield replace(session, steps=(*steps[:place], simpler, *steps[place + 1 :]))


def _smaller_datasets(session: Session) -> Iterator[Dataset]:
    dataset = session.dataset
    used = set(_names(session.steps))
    unused = tuple(column for column in dataset.columns if column.name in used)
    if 0 < len(unused) < len(dataset.columns):
        yield replace(dataset, columns=unused)
    if not used and len(dataset.columns) > 1:
        yield replace(dataset, columns=dataset.columns[:1])
    yield from (replace(dataset, rows=rows, size=max(rows, 1)) for rows in (0, 2, 50, 300) if rows < dataset.rows)
    plain = {
        "door": "memory", "analysts": (), "cap": None, "crowded": False, "after": "refuse", "neighbours": "add-remove",
        "linked": False, "public": "",
    }  # fmt: skip
    for name, value in plain.items():
        if getattr(dataset, name) != value and not (name == "door" and dataset.analysts):
            yield replace(dataset, **{name: value})  # type: ignore[arg-type]
    if dataset.door in FILES:
        yield replace(dataset, door="ledger")
    if dataset.accountant in {"either", "zcdp", "gaussian"}:
        yield replace(dataset, accountant="renyi")
    if dataset.accountant != "pure":
        yield replace(dataset, accountant="pure", delta="0")
    if dataset.epsilon != "100":
        yield replace(dataset, epsilon="100")
    for place, column in enumerate(dataset.columns):
        others = {name: None for name in ("cuts", "otherwise") if getattr(column, name) is not None}
        for name in others:
            simpler = replace(column, **{name: None})
            yield replace(dataset, columns=(*dataset.columns[:place], simpler, *dataset.columns[place + 1 :]))


def _simpler(step: Step) -> Iterator[Step]:
    match step:
        case Reopen() | Renew() | Wrong() | Raise() | Stop() | Synthesize():
            return
        case Shape():
            pass
        case (
            Ask(question=asked)
            | Anew(question=asked)
            | Choose(question=asked)
            | Drill(question=asked)
            | Compute(question=asked)
        ):
            grouped = isinstance(step, Choose | Drill | Compute)
            yield from (
                replace(step, question=question) for question in _plainer(asked) if question.keys or not grouped
            )
        case (
            AskMany(questions=several)
            | Prepare(questions=several)
            | Above(questions=several)
            | Threads(questions=several)
            | Weigh(questions=several)
        ):
            if len(several) > 1:
                yield from (
                    replace(step, questions=several[:place] + several[place + 1 :]) for place in range(len(several))
                )
            for place, asked in enumerate(several):
                for question in _plainer(asked):
                    yield replace(step, questions=(*several[:place], question, *several[place + 1 :]))
            if isinstance(step, AskMany) and len(several) == 1:
                yield Ask(several[0], step.request, analyst=step.analyst)
    for name, value in (
        ("words", 0),
        ("key", None),
        ("quoted", False),
        ("analyst", 0),
        ("door", "python"),
        ("alerts", 1),
    ):
        if hasattr(step, name) and getattr(step, name) != value:
            yield replace(step, **{name: value})  # type: ignore[arg-type]
    if isinstance(step, Ask | Anew | AskMany | Prepare | Drill | Threads):
        request = step.request
        if request.confidence is not None:
            yield replace(step, request=replace(request, confidence=None))
        if request.within not in {None, 10} and not isinstance(request.within, str):
            yield replace(step, request=replace(request, within=10))
        if request != Request(epsilon="1") and not isinstance(step, Prepare | Drill):
            yield replace(step, request=Request(epsilon="1"))


def _plainer(asked: Question) -> Iterator[Question]:
    if len(asked.terms) > 1:
        yield from (
            replace(asked, terms=asked.terms[:place] + asked.terms[place + 1 :]) for place in range(len(asked.terms))
        )
    for name, value in (("having", None), ("order", ""), ("limit", None), ("where", None), ("keys", ())):
        if getattr(asked, name) != value:
            yield replace(asked, **{name: value})  # type: ignore[arg-type]
    if len(asked.keys) > 1:
        yield from (replace(asked, keys=(key,)) for key in asked.keys)
    if asked.where is not None:
        yield from (replace(asked, where=part) for part in _parts(asked.where))
    for place, term in enumerate(asked.terms):
        for part in _terms(term):
            yield replace(asked, terms=(*asked.terms[:place], part, *asked.terms[place + 1 :]))


def _terms(term: Aggregate | Arithmetic) -> Iterator[Aggregate]:
    if isinstance(term, Arithmetic):
        yield term.left
        return
    if term.where is not None and term.measure != "share":
        yield replace(term, where=None)
    if (term.factor, term.shift) != (1, 0):
        yield replace(term, factor=1, shift=0)
    if term != Aggregate("count"):
        yield Aggregate("count")


def _parts(where: Condition) -> Iterator[Condition]:
    match where:
        case And(parts) | Or(parts):
            yield from parts
            if len(parts) > 2:
                yield from (type(where)(parts[:place] + parts[place + 1 :]) for place in range(len(parts)))
        case Not(part):
            yield part


def _names(value: object) -> Iterator[str]:
    """Yield the names of all columns that steps speak of."""
    if is_dataclass(value):
        for item in fields(value):
            content = getattr(value, item.name)
            if item.name == "column" and content is not None:
                yield content
            elif item.name == "columns":
                yield from content
            else:
                yield from _names(content)
    elif isinstance(value, tuple):
        for item in value:
            yield from _names(item)


# --- Python that can be pasted ----------------------------------------------------------------------------------------


def script(session: Session, found: Broken) -> str:
    """Return a session as Python text in terms of the public surface; rows of large tables come from here."""
    dataset = session.dataset
    lines = [
        f"# seed {session.seed}, broken: {found.invariant}",
        *(f"# {line}" for line in found.detail[:600].splitlines()),
        "from datetime import date, datetime",
        "import pandas as pd",
        "import dodona",
        "from dodona import Analyst, Boolean, Budget, Category, Date, Domain, Integer, LinkedTable, Number",
        "from dodona import PublicTable, Schema, Timestamp",
        f"schema = {dataset.schema_source()}",
        f"budget = Budget({dataset.epsilon!r}, {dataset.delta!r}, {dataset.accountant!r})",
    ]
    if dataset.rows <= 60:
        frame = table(dataset).frame
        written = {name: _listed(frame[name]) for name in frame}
        kinds = "" if len(frame) else f".astype({ {name: str(dtype) for name, dtype in frame.dtypes.items()} })"
        columns = ", ".join(f"{name!r}: {text}" for name, text in written.items())
        lines.append(f"frame = pd.DataFrame({{{columns}}}){kinds}")
    else:
        lines += [f"from tests.sessions.session import session  # {dataset.rows} rows, seed {dataset.seed}"]
        lines += ["from tests.sessions.dataset import *", f"frame = table({dataset!r}).frame"]
    if dataset.linked:
        people = people_of(dataset)
        columns = ", ".join(f"{name!r}: {_listed(people[name])}" for name in people)
        lines.append(f"people = pd.DataFrame({{{columns}}})")
        lines.append("frame = {'t': frame, 'p': people}")
    if dataset.door != "memory":
        if dataset.door != "ledger":
            lines.append(f"# the session went through a dataset file over {dataset.door}")
        analysts = ", ".join(f"Analyst({name!r}, {share!r})" for name, share in dataset.analysts)
        lines.append(f"dodona.create_ledger('t.ledger', schema=schema, budget=budget, analysts=[{analysts}])")
    lines.append(_opening(dataset, 0))
    for number, step in enumerate(session.steps):
        further = list(found.further) if number == found.step else []
        lines += [*further, *_lines(step, dataset), *further] if isinstance(step, Reopen) else _lines(step, dataset)
        lines += further if isinstance(step, Drill) else []
    return "\n".join(lines)


def _listed(own: pd.Series[Any]) -> str:
    values = [
        None
        if value is None or (isinstance(value, float) and math.isnan(value)) or str(value) in {"NaT", "<NA>"}
        else value
        for value in own.tolist()
    ]
    return (
        "["
        + ", ".join(f"pd.Timestamp({str(value)!r})" if hasattr(value, "isoformat") else repr(value) for value in values)
        + "]"
    )


def _opening(dataset: Dataset, analyst: int) -> str:
    who = f", analyst={dataset.analysts[analyst][0]!r}" if dataset.analysts else ""
    ledger = ", ledger='t.ledger'" if dataset.door != "memory" else ""
    after = f", after={dataset.after!r}" if dataset.after != "refuse" else ""
    return f"t{analyst} = dodona.open(frame, schema=schema, budget=budget{who}{ledger}{after})"


def _lines(step: Step, dataset: Dataset) -> list[str]:
    if isinstance(step, Reopen):
        return ["t0.close()", _opening(dataset, 0)]
    if isinstance(step, Renew):
        return ["t0.close()", "# other rows under version='2' from here on", _opening(dataset, 0)]
    if isinstance(step, Raise | Stop):
        act = "raise" if isinstance(step, Raise) else f"stop {dataset.analysts[step.analyst][0]}"
        return ["t0.close()", f"# dodona ledger {act} ...", _opening(dataset, 0)]
    who = f"t{step.analyst}"
    lines = [_opening(dataset, step.analyst)] if step.analyst else []
    if isinstance(step, Wrong):
        return [*lines, f"{who}.ask({step.text!r})"]
    if isinstance(step, Shape):
        said = "".join(f", {name}={value!r}" for name, value in step.request.arguments().items())
        lines += [f"print({who}.quote({step.text!r}{said}))"] if step.quoted else []
        return [*lines, *[f"print({who}.ask({step.text!r}{said}))"] * 2]
    if isinstance(step, Synthesize):
        said = f"columns={step.columns}, share={step.share!r}, name='made'"
        return [*lines, *[f"dodona.synthesize({who}, '2-way', {said})"] * 2]
    several = step.questions if isinstance(step, AskMany | Prepare | Above | Threads | Weigh) else (step.question,)
    texts = [question.text(dataset, step.words if isinstance(step, Ask) else 0) for question in several]
    said = (
        "".join(f", {name}={value!r}" for name, value in step.request.arguments().items())
        if hasattr(step, "request")
        else ""
    )
    key = f", key={step.key!r}" if getattr(step, "key", None) else ""
    match step:
        case Ask() | AskMany():
            asked = repr(texts[0]) if isinstance(step, Ask) else repr(texts)
            lines += [f"print({who}.quote({asked}{said}))"] if step.quoted else []
            word = "ask" if isinstance(step, Ask) else "ask_many"
            return [*lines, f"print({who}.{word}({asked}{said}{key}))"]
        case Anew():
            lines += [f"print({who}.quote({texts[0]!r}{said}, fresh=True))"] if step.quoted else []
            return [*lines, f"print({who}.ask({texts[0]!r}{said}, fresh=True))"]
        case Prepare():
            return [
                *lines,
                f"print({who}.prepare({texts}{said}))",
                *(f"print({who}.ask({text!r}{said}))" for text in texts),
            ]
        case Choose():
            return [
                *lines,
                *[f"print({who}.choose({texts[0]!r}, epsilon={step.epsilon!r}, count={step.count}{key}))"] * 2,
            ]
        case Above():
            opened = f"watch = {who}.above({step.threshold}, epsilon={step.epsilon!r}, alerts={step.alerts})"
            return [*lines, opened, *(f"print(watch.ask({text!r}))" for text in texts)]
        case Weigh():
            opened = f"weights = {who}.weights(questions=10, epsilon={step.epsilon!r}, columns={list(step.columns)})"
            return [*lines, opened, *(f"print(weights.ask({text!r}))" for text in texts)]
        case Compute():
            return [*lines, *[f"print({who}.ask({step.text(dataset)!r}{said}{key}))"] * 2]
        case Drill():
            return [*lines, f"print({who}.ask({texts[0]!r}{said}))  # then the count of the {step.into} of its groups"]
        case _:
            started = f"from concurrent.futures import ThreadPoolExecutor; pool = ThreadPoolExecutor({len(texts)})"
            return [*lines, started, f"print(*pool.map(lambda text: {who}.ask(text{said}), {texts}))"]
