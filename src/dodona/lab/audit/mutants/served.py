"""Faults between query and answer: the mechanism is right, but not the code around it."""

from __future__ import annotations

from dodona.lab.audit.patch import Mutant, Patch, replace_lines

_RELEASE = "dodona.trusted.gate"
_ANSWERING = "dodona.curator.ladder"
_DRAWN = "    noise = draw_runs(_noise_runs(measurement))"
_NOISY = f"{_DRAWN}\n    if isinstance(values, np.ndarray) and values.dtype == np.int64:"


def _change_noise(*lines: str) -> Patch:
    """Return the patch that changes noise after it was drawn."""
    return replace_lines(
        _RELEASE,
        _NOISY,
        "\n".join((_DRAWN, *(" " * 4 + line for line in lines), *_NOISY.split("\n")[1:])),
        symbol="add_noise",
    )


_EMPTY_WITHOUT_NOISE = _change_noise("noise[np.asarray(values) == 0] = 0")

MUTANTS = (
    Mutant(
        "empty group served without noise",
        "an empty group is answered 0",
        (_EMPTY_WITHOUT_NOISE,),
        ("served rare group",),
    ),
    Mutant(
        "key shown only if present",
        "an empty group is left out of the answer",
        (
            _EMPTY_WITHOUT_NOISE,
            replace_lines(
                "dodona.answer.rows",
                "    chosen = chosen[question.offset : last]",
                "    chosen = [group for group in chosen[question.offset : last] if measured.steps(0)[group] != 0]",
                symbol="make_rows",
            ),
        ),
        ("served rare group",),
    ),
    Mutant(
        "error on an empty group",
        "a source cannot answer for an empty group",
        (
            replace_lines(
                _RELEASE,
                "        if len(values) != query.values:",
                "        if len(values) != query.values or 0 in np.asarray(values)[:3]:",
                symbol="_read_values",
            ),
        ),
        ("served rare group",),
    ),
    Mutant(
        "four redraws under one charge",
        "a release is the mean of four noisy answers",
        (
            _change_noise(
                "more = [draw_runs(_noise_runs(measurement)) for _ in range(3)]",
                "noise = (noise + sum(more)) // 4",
            ),
        ),
        ("served count", "served sum"),
    ),
    Mutant(
        "noise of one block used for the next",
        "of two questions that are asked together, the second gets the noise of the first",
        (_change_noise("noise = np.repeat(noise[::2], 2)[: len(noise)]"),),
        ("served pair of counts",),
    ),
    Mutant(
        "largest groups found before noise",
        "LIMIT looks at the exact counts",
        (_change_noise("noise = noise + np.where(np.asarray(values) < np.max(values), -(1 << 40), 0)"),),
        ("served top group",),
    ),
    Mutant(
        "sum wraps at 32 bits",
        "a source adds up 32-bit integers",
        (
            replace_lines(
                "dodona.engines.answers",
                "        return _bincount(groups, weights, number=number, counts=counts)",
                "        wide = _bincount(groups, weights, number=number, counts=counts)\n"
                "        return wide.astype(np.int32).astype(np.int64)",
                symbol="group_sums",
            ),
        ),
        ("served sum of 32 bits",),
    ),
    Mutant(
        "clamped at a bound from the data",
        "values are clamped to the median of the column",
        (
            replace_lines(
                "dodona.schema.encoding",
                "        steps = np.clip(steps, 0, attribute.size - 1)",
                "        steps = np.clip(steps, 0, min(np.nanmedian(steps), attribute.size - 1))",
                symbol="_encode_numbers",
            ),
        ),
        ("served sum",),
    ),
    Mutant(
        "served under the other relation",
        "a replaced row is priced as an added one",
        (
            replace_lines(
                "dodona.privacy.measurement",
                "        events = [noise.event(unit_sensitivity(query, unit)) for noise, query in "
                "zip(parts, queries, strict=True)]",
                "        from dataclasses import replace\n\n"
                "        from dodona.schema.schema import Neighbours\n"
                "        from dodona.query.sensitivity import row_sensitivity as sensitivity_of\n\n"
                "        found = [sensitivity_of(query, Neighbours.ADD_REMOVE) for query in queries]\n"
                "        found = [replace(one, neighbours=unit.neighbours, monotone=False) for one in found]\n"
                "        events = [noise.event(one) for noise, one in zip(parts, found, strict=True)]",
                symbol="Measurement.event",
            ),
        ),
        ("served groups", "served pair of counts"),
    ),
    Mutant(
        "price of the planner trusted",
        "the planner halves prices, and a release does not compute them again",
        (
            replace_lines(
                "dodona.curator.planner",
                "            events.append(measurements[-1].event(self.unit, moved))",
                "            wider = tuple(type(noise)(scale=2 * noise.scale) for noise in noises)\n"
                "            events.append(Measurement(query, wider).event(self.unit))",
                symbol="Planner._price",
            ),
            replace_lines(
                _RELEASE,
                "        if (receipt.event, receipt.purpose, receipt.version) != (event, purpose, source.version):",
                "        if (receipt.purpose, receipt.version) != (purpose, source.version):",
                symbol="_Gate.__init__",
            ),
        ),
        ("served count",),
    ),
    Mutant(
        "data read before the receipt is used",
        "the exact answer is fetched while the charge is still being written",
        (
            replace_lines(
                _RELEASE,
                "        self.redeem()",
                "        read_exact(self._source, query)\n        self.redeem()",
                symbol="_Gate.release",
            ),
        ),
        ("question before its charge",),
    ),
    Mutant(
        "no charge for a failure",
        "the table is tried before it is charged for, so that a failure is free",
        (
            replace_lines(
                _ANSWERING,
                "        bought = self.desk.buy_once(purchase, key=call.key, seen=call.seen)",
                "        from dodona.trusted.gate import read_exact as exact\n\n"
                "        exact(self._dataset.source, order.measurement.query)\n"
                "        bought = self.desk.buy_once(purchase, key=call.key, seen=call.seen)",
                symbol="Ladder.buy",
            ),
        ),
        ("question on a table that fails", "question before its charge"),
    ),
    Mutant(
        "choice before its receipt is used",
        "scores are read while the charge is still being written",
        (
            replace_lines(
                _RELEASE,
                "        self.redeem()",
                "        read_exact(self._source, query)\n        self.redeem()",
                symbol="_Gate.release",
            ),
        ),
        ("choice before its charge",),
    ),
    Mutant(
        "largest score released",
        "a choice is the largest exact score",
        (
            replace_lines(
                "dodona.trusted.gate",
                "        winner = numbers[_choose_one(selection, list(left.values()))]",
                "        winner = max(numbers, key=left.__getitem__)",
                symbol="_choose_all",
            ),
        ),
        ("served choice",),
    ),
    Mutant(
        "batch priced as one choice",
        "however many are chosen together, one choice is charged",
        (
            replace_lines(
                "dodona.privacy.scores",
                "        return choice_event if self.count == 1 else ComposedEvent(((choice_event, self.count),))",
                "        return choice_event",
                symbol="DistanceScores.event",
            ),
        ),
        ("served batch",),
    ),
    Mutant(
        "rest of a batch by exact scores",
        "only the first choice of a batch is private",
        (
            replace_lines(
                "dodona.trusted.gate",
                "        winner = numbers[_choose_one(selection, list(left.values()))]",
                "        first = numbers[_choose_one(selection, list(left.values()))]\n"
                "        winner = max(numbers, key=left.__getitem__) if chosen else first",
                symbol="_choose_all",
            ),
        ),
        ("served batch at a low price",),
    ),
    Mutant(
        "alert without noise",
        "an alert compares the exact count with the exact threshold",
        (
            replace_lines(
                "dodona.trusted.gate",
                "            self._watch = OpenSparseVector(self._mechanism, _draw_laplace)",
                "            self._watch = OpenSparseVector(self._mechanism, lambda scale: 0 * _draw_laplace(scale))",
                symbol="Alerts._ready",
            ),
        ),
        ("served alert",),
    ),
    Mutant(
        "watch opened without its receipt",
        "alerts are released although the charge could not be used",
        (
            replace_lines(
                "dodona.trusted.gate",
                "        self.open = paid(self._ledger.arm(self._receipt, fresh=fresh))",
                "        self.open = paid(WatchUsage(1, int(fresh)))",
                symbol="_Gate.arm",
            ),
        ),
        ("watch before its charge",),
    ),
)
