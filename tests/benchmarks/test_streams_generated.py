"""The streams are those of their recipes: the same tables, pools and draws for everybody."""

from functools import cache

import numpy as np
import pytest

from benchmarks.streams import adult, binary, covid
from benchmarks.streams.catalogue import GENERATED, STREAMS
from benchmarks.streams.stream import Product, Products, distinct, drawn
from dodona.errors import InvalidRequest
from dodona.query.predicate import evaluate_predicate
from dodona.query.query import product_axes


@cache
def made(name):
    return STREAMS[name].stream(None)


def where(predicate, domain):
    return np.broadcast_to(evaluate_predicate(predicate, product_axes(domain, domain.names)), domain.shape).reshape(-1)


@pytest.mark.parametrize(("attributes", "pool", "asked"), [(10, 1_160, 1_146), (16, 4_992, 3_153)])
def test_conjunctions_are_drawn_as_the_recipe_says(attributes, pool, asked):
    assert len(binary.pool(attributes)) == pool
    places, turns = distinct(drawn(pool, turns=5_000, exponent=0.0))
    assert (len(places), len(turns)) == (asked, 5_000)


@pytest.mark.parametrize(("exponent", "asked"), [(1, 6_138), (0, 15_230)])
def test_products_are_drawn_as_the_recipe_says(exponent, asked):
    assert len(covid.pool()) == 34_425
    places, _ = distinct(drawn(34_425, turns=20_000, exponent=exponent))
    assert len(places) == asked


def test_the_pool_of_conjunctions_goes_by_size_then_attributes_then_values():
    pool = binary.pool(10)
    assert pool[:3] == [Product(((0, 1),)), Product(((0, 2),)), Product(((1, 1),))]
    assert pool[20] == Product(((0, 1), (1, 1)))
    assert pool[-1] == Product(((7, 2), (8, 2), (9, 2)))


def test_probabilities_of_the_tests_for_a_disease_sum_to_one_and_one_in_25_is_positive():
    likely = covid.likely()
    assert likely.shape == (2, 2, 4, 8)
    assert likely.sum() == pytest.approx(1)
    assert likely[1].sum() == pytest.approx(0.04)


@pytest.mark.parametrize("name", GENERATED)
def test_a_stream_has_a_row_in_exactly_one_cell_and_a_budget_of_each_kind(name):
    stream = made(name)
    assert stream.schema.domain.shape == stream.cells.shape
    assert stream.cells.sum() == stream.rows == 100_000
    assert stream.within == 5_000
    assert set(stream.epsilon) == {"approximate", "pure"}
    assert stream.asked.max() + 1 == len(stream.questions)
    assert stream.fresh()[-1] == len(stream.questions)


@pytest.mark.parametrize("name", GENERATED)
def test_the_predicate_of_a_question_means_the_cells_that_its_exact_answer_sums(name):
    stream = made(name)
    truths = stream.truths()
    for number in range(0, len(stream.questions), len(stream.questions) // 7):
        mask = where(stream.questions.predicate(number, stream.schema.domain), stream.schema.domain)
        assert (mask == stream.questions.mask(number)).all()
        assert truths[number] == stream.cells.reshape(-1)[mask].sum()


def test_the_columns_of_a_stream_have_the_rows_that_its_cells_say():
    stream = made("covid-1")
    codes = [column.astype(np.int64) for column in stream.columns.values()]
    counted = np.bincount(np.ravel_multi_index(codes, stream.cells.shape), minlength=stream.cells.size)
    assert (counted == stream.cells.reshape(-1)).all()
    bits = made("conj-10")
    first = bits.columns["b00"]
    assert first.sum() == bits.cells[1].sum()


def test_questions_of_adult_have_one_to_three_columns_and_leave_a_value_in_and_out():
    shape = tuple(adult.COLUMNS.values())
    listed = adult.drawn(shape, turns=2_000)
    assert listed == adult.drawn(shape, turns=2_000)
    assert {len(product.sets) for product in listed} == {1, 2, 3}
    assert all(0 < codes < (1 << shape[place]) - 1 for product in listed for place, codes in product.sets)


def test_the_adult_table_is_read_from_codes(tmp_path):
    path = tmp_path / "adult.csv"
    rows = np.random.default_rng(0).integers(0, list(adult.COLUMNS.values()), (500, 8))
    lines = [",".join(["age", *adult.COLUMNS]), *(",".join(map(str, [30, *row])) for row in rows.tolist())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    stream = adult.products(path, turns=200, epsilon={})
    assert stream.rows == stream.cells.sum() == 500
    assert stream.within == pytest.approx(10)
    assert stream.schema.domain.shape == tuple(adult.COLUMNS.values())


@pytest.mark.parametrize("text", ["a,b\n1,2\n", ",".join(adult.COLUMNS) + "\n" + ",".join(["99"] * 8) + "\n"])
def test_a_table_that_is_not_adult_is_refused(tmp_path, text):
    path = tmp_path / "other.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidRequest):
        adult.read(path)


def test_adult_without_its_table_says_what_to_give():
    with pytest.raises(InvalidRequest, match="--data"):
        STREAMS["adult-3"].stream(None)


def test_sums_over_marginals_are_sums_over_cells():
    generator = np.random.default_rng(4)
    questions = Products((3, 2, 4), [Product(((0, 5), (2, 6))), Product(((0, 7), (1, 1))), Product(((0, 7),))])
    cells = generator.random((3, 2, 4))
    expected = [cells[[0, 2]][:, :, [1, 2]].sum(), cells[:, 0].sum(), cells.sum()]
    assert questions.totals(cells) == pytest.approx(expected)
