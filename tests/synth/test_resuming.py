"""A run that stops anywhere is taken up again: what was recorded is neither paid for twice nor lost."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dodona.privacy.scores import DistanceScores, distance_sensitivity
from dodona.synth.methods import Annealed, Blr, Guaranteed, Mwem, SynthesisMethod
from dodona.synth.run import Currency, SynthesisRun
from dodona.synth.synthesize import quote_synthesis, synthesize
from dodona.synth.whole import measure_whole, plan_whole
from dodona.synth.workload import DEFAULT_CELLS, SynthesisStopped, Workload, marginal_block
from tests.synth.scene import curator_of, failing, ledger_of, schema, tiny, tiny_columns

SCHEMA = schema()
TWO = Workload.ways(SCHEMA.domain, 2, ["sex", "ward", "emergency"])
METHODS: list[SynthesisMethod] = [Annealed(rounds=3), Mwem(rounds=2), Guaranteed(rounds=3)]


@pytest.mark.share(2)
@pytest.mark.parametrize("after", [False, True], ids=["before the write", "after the write"])
@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 6, *(pytest.param(at, marks=pytest.mark.slow) for at in range(7, 13))])
def test_a_run_that_stops_anywhere_goes_on_where_it_was(at: int, *, after: bool):
    kept = ledger_of(SCHEMA)
    with pytest.raises(OSError, match=r"reserve|redeem|record"):
        synthesize(
            curator_of(SCHEMA, ledger=failing(kept, at=at, after=after)), TWO, share="1/2", method=Mwem(rounds=2)
        )
    recorded = len(kept.releases())
    model = synthesize(curator_of(SCHEMA, ledger=kept), TWO, share="1/2", method=Mwem(rounds=2))
    how = [step.how for step in model.steps]
    assert how.count("recalled") == recorded
    # A receipt that was used and never answered is lost; one that was only reserved is used now.
    lost = (at % 3 == 2 and after) or (at % 3 == 0 and not after)
    assert how.count("lost") == int(lost)
    assert float(kept.state().spent) <= 0.5
    assert kept.state().charges <= 4


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_run_that_was_stopped_between_steps_ends_as_it_would_have(method: SynthesisMethod):
    kept = ledger_of(SCHEMA)
    with pytest.raises(OSError, match="reserve"):
        synthesize(curator_of(SCHEMA, ledger=failing(kept, at=4, after=False)), TWO, share="1/2", method=method)
    stopped = kept.releases()
    first = synthesize(curator_of(SCHEMA, ledger=kept), TWO, share="1/2", method=method)
    again = synthesize(curator_of(SCHEMA, ledger=kept), TWO, share="1/2", method=method)
    assert kept.releases()[: len(stopped)] == stopped
    assert {step.how for step in again.steps} == {"recalled"}
    for block in TWO.query.blocks:
        np.testing.assert_array_equal(first.expect([block]), again.expect([block]))


def test_a_database_that_was_lost_after_its_charge_leaves_the_even_law():
    declared = tiny()
    kept, workload = ledger_of(declared), Workload.ways(declared.domain, 2)
    held = tiny_columns([0] * 20)
    with pytest.raises(OSError, match="record"):
        synthesize(
            curator_of(declared, held, ledger=failing(kept, at=3, after=False)), workload, share=1, method=Blr(rows=3)
        )
    model = synthesize(curator_of(declared, held, ledger=kept), workload, share=1, method=Blr(rows=3))
    assert [step.how for step in model.steps] == ["lost"]
    np.testing.assert_allclose(model.expect(workload.query), 5)
    assert model.promise is None
    assert "within" not in str(model)
    assert kept.state().charges == 1


def test_another_workload_or_price_under_the_same_name_has_its_own_charges():
    kept = ledger_of(SCHEMA)
    curator = curator_of(SCHEMA, ledger=kept)
    synthesize(curator, TWO, share="1/4", method=Mwem(rounds=1))
    synthesize(curator, TWO, share="1/8", method=Mwem(rounds=1))
    synthesize(curator, Workload.ways(SCHEMA.domain, 1), share="1/8", method=Mwem(rounds=1))
    assert kept.state().charges == 6


def test_a_release_that_others_outspend_says_how_far_it_came():
    kept = ledger_of(SCHEMA)
    curator = curator_of(SCHEMA, ledger=kept)

    def others(part: float, _about: str) -> None:
        if part < 0.3:
            curator.ask("SELECT count(*) FROM stays WHERE days = 1", epsilon="1.5", key=str(part))

    with pytest.raises(SynthesisStopped, match=r"it goes on; with share= it would begin anew.*\. The charge stands"):
        synthesize(curator, TWO, share="9/10", method=Mwem(rounds=3), progress=others)
    assert [release.text for _, release in kept.releases() if (release.text or "").startswith("release")]


def test_a_release_at_an_epsilon_goes_on_after_the_budget_was_raised_and_one_at_a_share_is_another():
    kept = ledger_of(SCHEMA)
    curator = curator_of(SCHEMA, ledger=kept)

    def others(part: float, _about: str) -> None:
        if part < 0.3:
            curator.ask("SELECT count(*) FROM stays WHERE days = 1", epsilon="1.5", key=str(part))

    wanted = {"epsilon": "9/5", "method": Mwem(rounds=3)}
    shared = quote_synthesis(curator, TWO, share="9/10", method=Mwem(rounds=3)).run
    with pytest.raises(SynthesisStopped):
        synthesize(curator, TWO, progress=others, **wanted)
    before = [release.values for _, release in kept.releases() if (release.text or "").startswith("release")]
    kept.raise_budget(Fraction(5), kept.state().total.delta)
    model = synthesize(curator, TWO, **wanted)
    assert [step.how for step in model.steps] == ["recalled"] * len(before) + ["paid"] * (6 - len(before))
    after = [release.values for _, release in kept.releases() if (release.text or "").startswith("release")]
    assert after[: len(before)] == before
    assert len(after) == 6 > len(before) > 0
    assert quote_synthesis(curator, TWO, share="9/10", method=Mwem(rounds=3)).run != shared


def test_where_a_choice_was_lost_nothing_is_promised():
    """Calls 4 to 6 are the second round's: charged, used, recorded."""
    for at, promised in ((4, True), (6, False)):
        kept = ledger_of(SCHEMA)
        with pytest.raises(OSError, match=r"reserve|record"):
            synthesize(curator_of(SCHEMA, ledger=failing(kept, at=at, after=False)), TWO, share=1, method=METHODS[2])
        model = synthesize(curator_of(SCHEMA, ledger=kept), TWO, share=1, method=METHODS[2])
        assert (model.promise is not None) is promised
        assert (not any(step.how == "lost" for step in model.steps)) is promised


@pytest.mark.parametrize("method", METHODS[:2], ids=str)
def test_what_another_version_began_is_taken_up_as_it_was_measured(method: SynthesisMethod):
    """Other single columns, another choice among other blocks, other noise: nothing is lost or paid for twice."""
    kept = ledger_of(SCHEMA)
    curator = curator_of(SCHEMA, ledger=kept)
    offer = quote_synthesis(curator, TWO, share="1/2", method=method)
    begun = SynthesisRun(
        TWO, curator.desk, offer.run, Currency("ρ"), offer.price, DEFAULT_CELLS, lambda _part, _about: None
    )
    sex, ward, pair = (marginal_block(SCHEMA.domain, names) for names in (["sex"], ["ward"], ["sex", "ward"]))
    if isinstance(method, Annealed):
        begun.measure("singles", [sex, ward], offer.price / 9)
    query = begun.asked([pair])
    choice = begun.currency.choice(offer.price / 50, distance_sensitivity(query, (1,), begun.unit))
    assert begun.choose_blocks("1 choose", DistanceScores(query, (0,) * 6, (1,), (0,), choice)) == (pair,)
    begun.measure("1 measure", [pair], offer.price / 9)
    recorded = kept.releases()
    model = synthesize(curator, TWO, share="1/2", method=method)
    assert kept.releases()[: len(recorded)] == recorded
    how = [step.how for step in model.steps]
    assert how[: len(recorded)] == ["recalled"] * len(recorded)
    assert set(how[len(recorded) :]) == {"paid"}
    assert [step.about for step in model.steps if step.name == "1 measure"] == ["measure sex × ward"]
    assert pair in {observation.block for observation in model.seen}
    assert (0.45 if isinstance(method, Annealed) else 0) < float(kept.state().spent) <= 0.5
    again = synthesize(curator, TWO, share="1/2", method=method)
    assert {step.how for step in again.steps} == {"recalled"}


def test_residuals_that_another_version_measured_keep_the_noise_that_they_have():
    kept = ledger_of(SCHEMA)
    curator = curator_of(SCHEMA, ledger=kept)
    offer = quote_synthesis(curator, TWO, share="1/2")
    begun = SynthesisRun(
        TWO, curator.desk, offer.run, Currency("ρ"), offer.price, DEFAULT_CELLS, lambda _part, _about: None
    )
    plan = plan_whole(begun)
    assert plan is not None
    coarser = tuple((residual, 4 * variance) for residual, variance in plan.parts)
    measure_whole(begun, replace(plan, parts=coarser))
    model = synthesize(curator, TWO, share="1/2")
    assert [step.how for step in model.steps] == ["recalled"]
    usual = synthesize(curator_of(SCHEMA), TWO, share="1/2")
    for other, observation in zip(usual.seen, model.seen, strict=True):
        assert observation.variance == pytest.approx(4 * other.variance, rel=1e-6)


def test_a_declaration_has_the_digest_that_it_always_had():
    """A run that was begun by an earlier version is found under it."""
    shared = quote_synthesis(curator_of(SCHEMA), TWO, share="1/2")
    named = quote_synthesis(curator_of(SCHEMA), TWO, epsilon="1/2", method=Mwem(rounds=2), name="spring")
    assert shared.run == "7fd65a6d6c3ed74efade9c3dbbd32690973ebb4e024ed2a5f0c994c3a0fd5e52"
    assert named.run == "6e959810654857205643a65fde629a7c7cc08ed1abc3bef52efafe5e921e5e9b"
