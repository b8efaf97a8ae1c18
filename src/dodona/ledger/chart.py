"""The burn-down chart: the budget left after each charge and each act of the owner."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from dodona.errors import InvalidRequest, printable
from dodona.ledger.account import remaining_share
from dodona.ledger.book import Book
from dodona.ledger.entries import Line

_SIZE = (9.0, 5.0)


@dataclass(frozen=True, slots=True)
class Burndown:
    """Shares left after each charge or act that changed them; the first value is at the creation of the ledger."""

    whole: tuple[float, ...]
    analysts: dict[str, tuple[float | None, ...]]
    """None before the analyst was admitted."""
    acts: tuple[tuple[int, str], ...]
    """The positions and names of the owner's acts."""
    epsilon: float


def compute_burndown(lines: Sequence[Line]) -> Burndown:
    """Return the shares left after every line that spent something or was an act of the owner."""
    book = Book.read(lines[:1])
    whole = [_left(book)]
    purses = [_analyst_shares(book)]
    acts = []
    for line in lines[1:]:
        before = _facts(book)
        book.follow([line])
        if before == _facts(book):
            continue
        whole.append(_left(book))
        purses.append(_analyst_shares(book))
        if _name(line) != "charged":
            acts.append((len(whole) - 1, _name(line)))
    names = sorted({name for left in purses for name in left})
    analysts = {name: tuple(left.get(name) for left in purses) for name in names}
    return Burndown(tuple(whole), analysts, tuple(acts), float(book.account.filter.epsilon))


def draw_burndown(burndown: Burndown, path: Path) -> None:
    """Draw the burn-down chart into a file."""
    if util.find_spec("matplotlib") is None:
        raise InvalidRequest("A picture needs matplotlib. Run: pip install 'dodona[plot]'.")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=_SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    steps = range(len(burndown.whole))
    axes.step(
        steps, [100 * left for left in burndown.whole], where="post", color="black", linewidth=2, label="everyone"
    )
    for name, lefts in burndown.analysts.items():
        values = [float("nan") if left is None else 100 * left for left in lefts]
        axes.step(steps, values, where="post", linewidth=1.4, label=f"{printable(name)}, of their share")
    for place, act in burndown.acts:
        axes.axvline(place, color="#999999", linestyle=":", linewidth=1)
        axes.annotate(
            act, (place, 101), xytext=(2, 0), textcoords="offset points", rotation=45, fontsize=8, annotation_clip=False
        )
    axes.set(xlabel="charges and acts of the owner", ylabel="left, % of the budget", ylim=(0, 100))
    axes.set_xlim(0, max(1, len(burndown.whole) - 1))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="best", frameon=False)
    title = f"Budget left; the whole is ε = {burndown.epsilon:g}"
    axes.set_title(title, loc="left", pad=42 if burndown.acts else 10)
    figure.savefig(path, dpi=150)


def _facts(book: Book) -> tuple[object, ...]:
    account = book.account
    return account.spent, account.filter, dict(account.purses), book.closed


def _left(book: Book) -> float:
    return float(remaining_share(book.account.filter, book.account.spent))


def _analyst_shares(book: Book) -> dict[str, float]:
    return {name: float(remaining_share(purse.filter, purse.spent)) for name, purse in book.account.purses.items()}


def _name(line: Line) -> str:
    return line.text.partition('"entry":"')[2].partition('"')[0]
