"""`dodona ledger`: create, show, verify, export, chart, upgrade and recover a ledger, and record the owner's acts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from dodona.cli.terminal import DatasetArgument, JsonOption, check_picture, report_errors, say
from dodona.errors import InvalidArgument, printable
from dodona.ledger import opening
from dodona.numbers import format_percent
from dodona.privacy.budget import BudgetState

if TYPE_CHECKING:
    from dodona.ledger.ledger import Ledger


# --- Locating the ledger of a command: by dataset file, path, address, or environment variable. ---


DATASET_SUFFIX = ".toml"
_ENV_PREFIX = "env:"

LedgerArgument = Annotated[
    str, typer.Argument(metavar="LEDGER", help="A dataset file (.toml), a path, postgresql://…#name, or env:NAME.")
]
HeadOption = Annotated[
    str | None, typer.Option(help="The head: a file, or env:NAME of an address. Default: beside the ledger.")
]


def open_named_ledger(ledger: str, head: str | None) -> Ledger:
    """Open the ledger."""
    if ledger.endswith(DATASET_SUFFIX):
        from dodona.dataset import open_dataset_ledger

        return open_dataset_ledger(ledger)
    return opening.open_ledger(parse_ledger_place(ledger), head=parse_head_place(head))


def locate_ledger_and_head(ledger: str, head: str | None) -> tuple[str | Path, str | Path | None]:
    """Return the locations of a ledger and its head; a dataset file gives both."""
    if ledger.endswith(DATASET_SUFFIX):
        from dodona.dataset import DatasetFile

        file = DatasetFile.read(ledger)
        return file.place, file.head_place if head is None else parse_head_place(head)
    return parse_ledger_place(ledger), parse_head_place(head)


def parse_head_place(head: str | None) -> str | None:
    """Resolve where the head is."""
    return None if head is None else parse_ledger_place(head)


def parse_ledger_place(text: str) -> str:
    """Resolve the location; an address with a password is better kept in the environment.

    A variable must hold an address or an absolute path: anything else may be a secret, and is not shown.
    """
    if not text.startswith(_ENV_PREFIX):
        return text
    name = text.removeprefix(_ENV_PREFIX)
    if name not in os.environ:
        raise InvalidArgument("ledger", text, f"set {name} in the environment")
    from dodona.ledger.opening import validate_address

    location = os.environ[name]
    return location if Path(location).is_absolute() else validate_address(location)


# --- Output of a ledger: tables for people, one JSON object for programs. ---


_LAST = 8


def state_tables(state: BudgetState, texts: list[str]) -> Iterator[Table]:
    """Yield the state and the last lines as tables."""
    total = state.total
    budget = Table(title="Budget", title_justify="left", show_header=False)
    budget.add_row("total", f"ε = {total.epsilon}, δ = {float(total.delta):g}, {total.accountant.value}")
    budget.add_row("spent", f"{format_percent(state.spent)}; ε so far, whenever you stop: {state.epsilon_spent:.3g}")
    budget.add_row("left", format_percent(state.left))
    budget.add_row("charges, releases", f"{state.charges:,}, {state.releases:,}")
    if state.closed or state.recovered:
        budget.add_row("state", " and ".join(["closed"] * state.closed + ["recovered"] * state.recovered))
    budget.add_row("head", state.head)
    yield budget
    if state.analysts:
        analysts = Table("analyst", "share", "spent of it", "left of it", "", title="Analysts", title_justify="left")
        for analyst in state.analysts:
            spent, left = format_percent(analyst.spent), format_percent(analyst.left)
            analysts.add_row(
                printable(analyst.name), str(analyst.share), spent, left, "stopped" if analyst.stopped else ""
            )
        yield analysts
    if not texts:
        return
    entries = Table("line", "time", "entry", "what", title=f"Last of {len(texts):,} lines", title_justify="left")
    for text in texts[-_LAST:]:
        fields = json.loads(text)
        what = _ENTRY_TEXTS[fields["entry"]](fields) if fields["entry"] in _ENTRY_TEXTS else ""
        entries.add_row(*map(printable, (str(fields["number"]), fields["time"][:19], fields["entry"], what)))
    yield entries


def _limits_text(fields: Mapping[str, object]) -> str:
    """Describe limits on spending in a line."""
    names = {"question": "a question", "analyst_day": "an analyst a day", "dataset_day": "a day"}
    listed = [f"{format_percent(Fraction(str(fields[key])))} {words}" for key, words in names.items() if key in fields]
    return ", ".join([*listed, "with approvals" if fields["approvals"] else "no approvals"])


_ENTRY_TEXTS: dict[str, Callable[[dict[str, object]], str]] = {
    "created": lambda fields: _earlier(fields.get("earlier")),
    "charged": lambda fields: f"{fields['analyst'] or 'anyone'} on {fields['dataset']}, {_event(fields['event'])}",
    "unanswered": lambda fields: f"receipt {str(fields['receipt'])[:12]}…, to be used again",
    "armed": lambda fields: f"receipt {str(fields['receipt'])[:12]}…, for one more alert",
    "redeemed": lambda fields: f"receipt {str(fields['receipt'])[:12]}…",
    "released": lambda fields: f"receipt {str(fields['receipt'])[:12]}…, {fields['mechanism']}",
    "raised": lambda fields: f"ε = {fields['epsilon']}, δ = {fields['delta']}",
    "recovered": lambda fields: f"ε = {fields['epsilon']}, δ = {fields['delta']}",
    "admitted": lambda fields: f"{fields['analyst']}, {fields['share']}",
    "stopped": lambda fields: str(fields["analyst"]),
    "declared": lambda fields: str(fields["dataset"]),
    "limits": _limits_text,
    "requested": lambda fields: f"{fields['analyst']}, {format_percent(Fraction(str(fields['share'])))} of the budget",
    "upgraded": lambda fields: f"format {fields['format']}",
    "checkpoint": lambda fields: f"state {str(fields['digest'])[:12]}…",
    "decided": lambda fields: f"{'granted' if fields['granted'] else 'declined'} by {fields['by']}",
}


def _earlier(listed: object) -> str:
    """Describe what was spent before the ledger existed."""
    if not isinstance(listed, list):
        return ""
    return "spent before: " + "; ".join(f"{purpose}, {_event(event)}" for purpose, event in listed)


def _event(fields: object) -> str:
    """Describe an event briefly: its kind, and its numbers without the neighbour relation."""
    if not isinstance(fields, dict):
        return ""
    numbers = [f"{name} {value}" for name, value in fields.items() if name not in {"event", "neighbours", "parts"}]
    return " ".join([str(fields["event"]), *numbers])


# --- The owner's acts on a ledger: raise, close, admit, stop and declare. Each is a permanent entry. ---


AnalystArgument = Annotated[str, typer.Argument(metavar="ANALYST", help="The analyst's name.")]


def raise_budget(
    ledger: LedgerArgument,
    *,
    epsilon: Annotated[str | None, typer.Option(help="The new total. Default: unchanged.")] = None,
    delta: Annotated[str | None, typer.Option(help="The new delta. Default: unchanged.")] = None,
    head: HeadOption = None,
) -> None:
    """Raise the budget. From then on the guarantee is that of the larger budget."""
    with report_errors():
        if epsilon is None and delta is None:
            raise InvalidArgument("epsilon", None, "write --epsilon, --delta or both")
        with open_named_ledger(ledger, head) as opened_ledger:
            before = opened_ledger.state().total
            wished = (epsilon, before.epsilon), (delta, before.delta)
            opened_ledger.raise_budget(*(old if new is None else new for new, old in wished))
            _say(f"raised: from ε = {before.epsilon}, δ = {float(before.delta):g}", opened_ledger.state())


def close_account(
    ledger: LedgerArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not prompt.")] = False,
    head: HeadOption = None,
) -> None:
    """Close the ledger for ever: nothing can be charged any more. Earlier answers stay free."""
    with report_errors(), open_named_ledger(ledger, head) as opened_ledger:
        if not yes:
            typer.confirm("Nothing can be charged to this ledger ever again. Go on?", abort=True)
        opened_ledger.end()
        _say("closed, for ever", opened_ledger.state())


def admit_analyst(
    ledger: LedgerArgument,
    analyst: AnalystArgument,
    *,
    share: Annotated[str, typer.Option(help="The analyst's share of the budget, such as 1/2.")] = "1",
    head: HeadOption = None,
) -> None:
    """Admit an analyst, or change their share. What they spent stays spent."""
    with report_errors(), open_named_ledger(ledger, head) as opened_ledger:
        from dodona.privacy.budget import Analyst

        first = not opened_ledger.state().analysts
        opened_ledger.admit(Analyst(analyst, share))
        _say(f"admitted: {_find_analyst(opened_ledger.state(), analyst)}", opened_ledger.state())
        if first:
            typer.echo("From now on only analysts who were let in may spend: name one with --analyst.")


def stop_analyst(ledger: LedgerArgument, analyst: AnalystArgument, *, head: HeadOption = None) -> None:
    """Stop an analyst from spending. Questions that were answered before stay free."""
    with report_errors(), open_named_ledger(ledger, head) as opened_ledger:
        opened_ledger.stop(analyst)
        _say(f"stopped: {_find_analyst(opened_ledger.state(), analyst)}", opened_ledger.state())


def declare_schema(
    dataset: DatasetArgument,
    *,
    same_people: Annotated[
        bool, typer.Option("--same-people", help="Add a further table of the same people to the ledger it names.")
    ] = False,
) -> None:
    """Bind the ledger to the schema in the file, after columns or linked tables were added at its end."""
    with report_errors():
        from dodona.dataset.changes import declare_added_columns

        typer.echo(f"declared: {declare_added_columns(Path(dataset), same_people=same_people)}")


def set_limits(  # noqa: PLR0913  each is an option
    ledger: LedgerArgument,
    *,
    question: Annotated[str | None, typer.Option(help="The most that one question may take, such as 2%.")] = None,
    analyst_day: Annotated[str | None, typer.Option(help="The most that one analyst may spend in a day.")] = None,
    dataset_day: Annotated[str | None, typer.Option(help="The most that all together may spend in a day.")] = None,
    approvals: Annotated[bool, typer.Option("--approvals", help="Let analysts ask you to approve more.")] = False,
    head: HeadOption = None,
) -> None:
    """Limit what one question and one day may take of the budget. Limits that are not given are removed."""
    with report_errors(), open_named_ledger(ledger, head) as opened_ledger:
        from dodona.ledger.limits import make_limits

        opened_ledger.set_limits(
            make_limits(question=question, analyst_day=analyst_day, dataset_day=dataset_day, approvals=approvals)
        )
        typer.echo(f"limits: {_limits_text(json.loads(opened_ledger.lines()[-1].text))}")


def list_requests(ledger: LedgerArgument, *, as_json: JsonOption = False, head: HeadOption = None) -> None:
    """Show the requests for approval, and what was decided."""
    with report_errors(), open_named_ledger(ledger, head) as opened_ledger:
        requests = opened_ledger.approval_requests()
        if as_json:
            print(json.dumps([request.to_json() for request in requests]))
            return
        table = Table("request", "time", "analyst", "share", "state", "question")
        for request in requests:
            shown = (
                request.id[:12],
                request.time[:19],
                request.analyst,
                format_percent(request.share),
                request.state,
                request.text,
            )
            table.add_row(*map(printable, shown))
        say(table if requests else "No analyst has requested an approval.")


RequestArgument = Annotated[str, typer.Argument(metavar="REQUEST", help="The request's id, or its beginning.")]
OwnerOption = Annotated[str, typer.Option("--by", help="The name of the owner who decides; it is recorded.")]


def approve(ledger: LedgerArgument, request: RequestArgument, *, by: OwnerOption, head: HeadOption = None) -> None:
    """Allow a question above the limits, once, at the price that was requested. It cannot be taken back."""
    _decide(ledger, head, request, by, granted=True)


def decline(ledger: LedgerArgument, request: RequestArgument, *, by: OwnerOption, head: HeadOption = None) -> None:
    """Decline a question above the limits. It cannot be taken back."""
    _decide(ledger, head, request, by, granted=False)


def _decide(ledger: str, head: str | None, request: str, by: str, *, granted: bool) -> None:
    with report_errors(), open_named_ledger(ledger, head) as opened_ledger:
        meant = [candidate.id for candidate in opened_ledger.approval_requests() if candidate.id.startswith(request)]
        if len(meant) != 1:
            accepted = f"{len(meant)} requests begin so; `dodona ledger requests` lists them"
            raise InvalidArgument("request", request, accepted)
        decided = opened_ledger.decide(meant[0], granted=granted, by=by)
        typer.echo(f"{decided.state}: {format_percent(decided.share)} of the budget for {printable(decided.analyst)}")


def _say(what: str, state: BudgetState) -> None:
    typer.echo(what)
    typer.echo(str(state))


def _find_analyst(state: BudgetState, name: str) -> str:
    analyst = next(candidate for candidate in state.analysts if candidate.name == name)
    return f"{name}, {analyst.share} of the budget, {format_percent(analyst.spent)} of it spent"


# --- `dodona ledger`: create, show, verify, export, chart, upgrade, recover, and act on the account. ---


app = typer.Typer(help="The durable account of what is spent.", no_args_is_help=True, add_completion=False)


@app.command()
def create(  # noqa: PLR0913  each is an option
    ledger: LedgerArgument,
    *,
    dataset: Annotated[
        list[str] | None, typer.Option(help="NAME=DIGEST of a table and its schema; all of the same people.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="The total, such as 1 or 1/2.")] = None,
    delta: Annotated[str, typer.Option(help="Such as 1e-6; 0 with --accountant pure.")] = "0",
    accountant: Annotated[str, typer.Option(help="pure, zcdp, renyi, gaussian or either.")] = "renyi",
    neighbours: Annotated[str, typer.Option(help="add-remove or replace.")] = "add-remove",
    analyst: Annotated[list[str] | None, typer.Option(help="NAME=SHARE, such as ada=1/2.")] = None,
    head: HeadOption = None,
) -> None:
    """Create a ledger where there is none. It is never overwritten. A dataset file needs no options."""
    with report_errors():
        if ledger.endswith(DATASET_SUFFIX):
            from dodona.dataset import create_ledger

            create_ledger(ledger)
            typer.echo(f"created: the ledger of {ledger}")
            return
        if dataset is None or epsilon is None:
            raise InvalidArgument("dataset", dataset, "give --dataset and --epsilon, or name a dataset file (.toml)")
        from dodona.ledger.opening import LedgerTerms
        from dodona.privacy.budget import Analyst, Budget
        from dodona.schema.schema import Neighbours
        from dodona.trusted.source import generate_cap_key

        if neighbours not in {relation.value for relation in Neighbours}:
            raise InvalidArgument("neighbours", neighbours, "write add-remove or replace")
        terms = LedgerTerms(
            datasets=dict(_pair("dataset", text, "=") for text in dataset),
            neighbours=Neighbours(neighbours),
            budget=Budget(epsilon, delta, accountant),
            analysts=tuple(Analyst(*_pair("analyst", text, "=")) for text in analyst or ()),
            cap_key=generate_cap_key(),
        )
        opening.create_ledger_at(parse_ledger_place(ledger), terms, head=parse_head_place(head))
        typer.echo(f"created: {opening.display_place(ledger)}")


@app.command()
def show(ledger: LedgerArgument, *, as_json: JsonOption = False, head: HeadOption = None) -> None:
    """Show what was spent, what is left, by whom, and the last entries."""
    with report_errors(), open_named_ledger(ledger, head) as opened_ledger:
        state = opened_ledger.state()
        if as_json:
            print(json.dumps(state.to_json()))
            return
        say(*state_tables(state, [line.text for line in opened_ledger.lines()]))


@app.command()
def verify(ledger: LedgerArgument, *, head: HeadOption = None) -> None:
    """Recompute every hash and every total. The exit code is 0 only if all of them match."""
    with report_errors(), open_named_ledger(ledger, head) as opened_ledger:
        state = opened_ledger.verify()
        typer.echo(f"verified: {len(opened_ledger.lines())} lines, {state.charges} charges, head {state.head}")


@app.command()
def export(ledger: LedgerArgument, *, head: HeadOption = None) -> None:
    """Print every line as JSON: the entry, its hash and the one before. The key of the cap on rows is left out."""
    with report_errors(), open_named_ledger(ledger, head) as opened_ledger:
        for line in opened_ledger.lines():
            entry = json.loads(line.text)
            entry.pop("cap_key", None)  # so that an export can be shared
            print(json.dumps({"hash": line.hash, "previous": line.previous} | entry))


@app.command()
def chart(
    ledger: LedgerArgument,
    *,
    output: Annotated[Path, typer.Option(help="Where to draw it.")] = Path("burn-down.png"),
    head: HeadOption = None,
) -> None:
    """Draw the budget left after each charge, in total and for each analyst."""
    with report_errors(), open_named_ledger(ledger, head) as opened_ledger:
        check_picture(output, argument="output")
        from dodona.ledger.chart import compute_burndown, draw_burndown

        draw_burndown(compute_burndown(opened_ledger.lines()), output)
        typer.echo(f"drawn: {output}")


@app.command()
def recover(
    ledger: LedgerArgument,
    *,
    epsilon: Annotated[str | None, typer.Option(help="The largest total that was ever granted.")] = None,
    delta: Annotated[str | None, typer.Option(help="The largest delta that was ever granted.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not prompt.")] = False,
    head: HeadOption = None,
) -> None:
    """Use a restored backup. Everything unspent in it counts as spent, for ever."""
    with report_errors():
        if not yes:
            typer.confirm("Everything unspent in this ledger will count as spent. Go on?", abort=True)
        where, kept_head = locate_ledger_and_head(ledger, head)
        opening.recover_ledger(where, head=kept_head, epsilon=epsilon, delta=delta)
        typer.echo(f"recovered: {opening.display_place(ledger)}; nothing is left until the budget is raised")


@app.command()
def upgrade(
    ledger: LedgerArgument,
    *,
    backup: Annotated[
        Path | None, typer.Option(help="Where to write the backup. Default: beside the ledger file.")
    ] = None,
    head: HeadOption = None,
) -> None:
    """Upgrade a ledger to the newest format, after a backup.

    Its content stays the same. Nobody else may have it open.
    """
    from dodona.ledger.upgrade import upgrade_ledger

    with report_errors():
        where, kept_head = locate_ledger_and_head(ledger, head)
        done = upgrade_ledger(where, head=kept_head, backup=backup)
        for step in done.steps:
            typer.echo(f"format {step.format}: {step.about}")
        if done.backup is None:
            typer.echo(f"nothing to do: the ledger has format {done.after}, the newest")
        else:
            typer.echo(f"upgraded: from format {done.before} to {done.after}; backup: {done.backup}")


app.command("raise")(raise_budget)
app.command("close")(close_account)
app.command("admit")(admit_analyst)
app.command("stop")(stop_analyst)
app.command("declare")(declare_schema)
app.command("limits")(set_limits)
app.command("requests")(list_requests)
app.command("approve")(approve)
app.command("decline")(decline)


def _pair(argument: str, text: str, sign: str) -> tuple[str, str]:
    first, separator, second = text.partition(sign)
    if not separator or not first or not second:
        raise InvalidArgument(argument, text, f"write two parts with {sign!r} between them")
    return first, second
