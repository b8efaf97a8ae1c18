"""Sample splitting and few possible answers: laws and trees that are written out."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from dodona.errors import InvalidArgument
from dodona.lab.adaptive.noiseless import (
    binomial_within,
    failure_per_query,
    hoeffding_from_log,
    hoeffding_within,
    log_sparse_transcripts,
    log_transcripts,
    union_bound_within,
    worst_tail,
)


@pytest.mark.parametrize("rows", [1, 7, 40, 263])
@pytest.mark.parametrize("failing", [0.3, 0.01, 1e-4])
def test_no_share_is_further_off_than_the_binomial_bound_whatever_its_probability(rows, failing):
    """P(|X/m - p| > t), summed, for 501 probabilities p."""
    within = binomial_within(rows, failing=failing)
    counts = np.arange(rows + 1)
    beyond = [
        float(binom.pmf(counts, rows, p)[np.abs(counts / rows - p) > within].sum()) for p in np.linspace(0, 1, 501)
    ]
    assert max(beyond) <= failing
    assert within <= hoeffding_within(rows, failing=failing) <= math.sqrt(math.log(2 / failing) / (2 * rows)) + 1e-9


@pytest.mark.parametrize(("rows", "gap"), [(20, 0.21), (100, 0.1), (263, 0.1)])
def test_the_binomial_bound_is_nearly_the_worst_probability(rows, gap):
    counts = np.arange(rows + 1)
    worst = max(
        float(binom.pmf(counts, rows, p)[np.abs(counts / rows - p) > gap + 1e-12].sum())
        for p in np.concatenate([np.linspace(0, 0.5, 601), counts / rows - gap - 1e-9, counts / rows + gap + 1e-9])
        if 0 <= p <= 1
    )
    assert worst <= worst_tail(rows, gap) * (1 + 1e-9)
    assert worst_tail(rows, gap) <= 1.1 * worst


def test_hoeffding_s_bound_covers_values_between_0_and_1():
    """Three values with a spread law over {0, ½, 1}: exact, over a grid of laws."""
    for failing in (0.5, 0.1):
        within = hoeffding_within(3, failing=failing)
        for low, middle in product(np.linspace(0, 1, 21), repeat=2):
            if low + middle > 1:
                continue
            law = {0.0: low, 0.5: middle, 1.0: 1 - low - middle}
            mean = 0.5 * middle + law[1.0]
            beyond = sum(
                math.prod(law[v] for v in values)
                for values in product(law, repeat=3)
                if abs(sum(values) / 3 - mean) > within
            )
            assert beyond <= failing


def test_fresh_rows_share_what_may_fail_as_independent_answers():
    each = failure_per_query(0.05, queries=100)
    assert (1 - each) ** 100 == pytest.approx(0.95)
    assert each > 0.05 / 100


def test_a_bound_that_says_nothing_is_one():
    assert hoeffding_within(1, failing=1e-30) == 1
    assert hoeffding_from_log(10, 1e9) == 1
    assert hoeffding_from_log(10**6, 5000.0) < 0.06
    with pytest.raises(InvalidArgument):
        hoeffding_within(0, failing=0.1)


@pytest.mark.parametrize(("queries", "levels"), [(1, 5), (3, 2), (4, 3), (6, 1)])
def test_the_tree_of_levels_counts_every_question_that_may_be_asked(queries, levels):
    nodes = sum(1 for asked in range(queries) for _ in product(range(levels), repeat=asked))
    assert nodes <= math.exp(log_transcripts(queries, levels)) * (1 + 1e-9)
    assert math.exp(log_transcripts(queries, levels)) <= nodes * 1.3


@pytest.mark.parametrize(
    ("queries", "positives", "levels"), [(1, 1, 4), (5, 1, 3), (6, 2, 2), (7, 3, 2), (4, 4, 3), (5, 9, 1)]
)
def test_the_sparse_tree_counts_every_question_that_may_be_asked(queries, positives, levels):
    """Answers are 'as trained' or one of L levels; after c of the latter nothing more is asked."""
    nodes = sum(
        1
        for asked in range(queries)
        for history in product(range(levels + 1), repeat=asked)
        if sum(answer > 0 for answer in history) < positives
    )
    bound = math.exp(log_sparse_transcripts(queries, positives=positives, levels=levels))
    assert nodes <= bound * (1 + 1e-9)
    assert bound <= 2.5 * nodes


def test_every_question_of_a_tree_is_within_the_bound_together():
    """Twelve coins, eight questions about different coins of each row: the union, exactly, is below what may fail."""
    rows, questions, failing = 12, 8, 0.2
    within = union_bound_within(rows, ways=math.log(questions), failing=failing)
    tail = float(binom.pmf(np.arange(rows + 1), rows, 0.5)[np.abs(np.arange(rows + 1) / rows - 0.5) > within].sum())
    assert questions * tail <= failing
    assert within == hoeffding_within(rows, failing=failing / questions)
