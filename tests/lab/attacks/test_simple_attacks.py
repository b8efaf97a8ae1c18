"""Averaging, differencing, tracing and linkage on answers that are not Dodona's. Everything comes from seeds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from dodona.errors import InvalidArgument, Refused
from dodona.lab.attacks import averaging, linkage, tracing
from dodona.lab.attacks.k_anonymity import anonymise
from dodona.lab.attacks.target import Exact, Numbers, Sets, UnderNoised, laplace_noise, random_secrets, seeded_generator


def test_averaging_takes_fresh_noise_off():
    generator = seeded_generator(1)
    secrets = random_secrets(300, generator)
    target = UnderNoised(Exact(secrets), laplace_noise(1.0, generator))
    assert np.mean(averaging.averaging_attack(target, times=1) == secrets) < 0.8
    assert (averaging.averaging_attack(target, times=400) == secrets).all()


@dataclass
class Refusing:
    """Answers once, then refuses every other time."""

    exact: Exact
    times: list[int] = field(default_factory=list)
    people: int = 0

    def counts(self, sets: Sets, /) -> Numbers:
        raise NotImplementedError

    def individual_counts(self) -> Numbers:
        self.times.append(1)
        if len(self.times) % 2 == 0:
            raise Refused("No.")
        return self.exact.individual_counts()


def test_averaging_goes_on_after_a_refusal():
    secrets = random_secrets(10, seeded_generator(2))
    target = Refusing(Exact(secrets))
    assert (averaging.averaging_attack(target, times=5) == secrets).all()
    assert len(target.times) == 5


def test_averaging_nothing_is_refused():
    with pytest.raises(InvalidArgument, match="times"):
        averaging.averaging_attack(Exact(random_secrets(3, seeded_generator(1))), times=0)


@dataclass
class SmallCountsRefused:
    """Refuses every count below ten, as statistical offices do, and is exact otherwise."""

    exact: Exact
    smallest: list[float] = field(default_factory=list)

    @property
    def people(self) -> int:
        return self.exact.people

    def counts(self, sets: Sets, /) -> Numbers:
        answers = self.exact.counts(sets)
        self.smallest.append(float(answers.min()))
        if self.smallest[-1] < 10:
            raise Refused("Small counts are not told.")
        return answers

    def individual_counts(self) -> Numbers:
        raise Refused("Small counts are not told.")


def test_differencing_gets_past_a_rule_against_small_counts():
    generator = seeded_generator(3)
    secrets = random_secrets(100, generator)
    target = SmallCountsRefused(Exact(secrets))
    with pytest.raises(Refused):
        averaging.averaging_attack(target, times=1)
    assert (averaging.differencing_attack(target, number=1, generator=generator) == secrets).all()
    assert target.smallest[0] >= 10


def test_a_crowd_is_followed_by_itself_with_each_person_changed():
    sets = averaging.crowds(4, number=3, generator=seeded_generator(1)).reshape(3, 5, 4)
    for crowd in sets:
        assert ((crowd[1:] ^ crowd[0]) == np.eye(4, dtype=np.bool_)).all()
    assert len({crowd[0].tobytes() for crowd in sets}) > 1


def test_differencing_takes_noise_off_without_asking_twice():
    generator = seeded_generator(4)
    secrets = random_secrets(60, generator)
    target = UnderNoised(Exact(secrets), laplace_noise(1.0, generator))
    assert np.mean(averaging.differencing_attack(target, number=200, generator=generator) == secrets) >= 0.99


@pytest.mark.parametrize(("people", "number", "said"), [(10, 0, "1 or more"), (100, 649, "allow 648 crowds")])
def test_crowds_of_other_numbers_are_refused(people: int, number: int, said: str):
    with pytest.raises(InvalidArgument, match=said):
        averaging.crowds(people, number=number, generator=seeded_generator(1))


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_averages_of_many_marks_tell_who_is_in_the_table(scale: float):
    generator = seeded_generator(5)
    study = tracing.random_study(40, marks=1000, generator=generator)
    counts = tracing.exact_counts if scale == 0 else tracing.noisy_counts(laplace_noise(scale, generator))
    assert np.mean(tracing.attack(study, counts) == study.member) >= 0.97


def test_averages_of_few_marks_do_not():
    """40 pairs, 20 marks: the score is half a deviation apart, 0.64 is expected and 0.9 is 3.4 deviations off."""
    study = tracing.random_study(40, marks=20, generator=seeded_generator(6))
    assert np.mean(tracing.attack(study, tracing.exact_counts) == study.member) < 0.9


def test_a_study_has_one_of_each_pair():
    study = tracing.random_study(30, marks=50, generator=seeded_generator(7))
    for row, first, second, member in zip(study.table, study.first, study.second, study.member, strict=True):
        assert (row == (second if member else first)).all()


@pytest.mark.parametrize("k", [1, 2, 5, 60])
def test_every_class_has_at_least_k_people_and_each_person_one_class(k: int):
    ward = linkage.random_ward(120, generator=seeded_generator(8))
    for release in linkage.anonymous_tables(ward, k=k):
        classes = release.class_of(ward.traits)
        sizes = np.bincount(classes, minlength=len(release.secrets))
        assert sizes.min() >= k
        assert sizes.max() <= 3 * k
        assert (sizes == release.secrets.sum(axis=1)).all()
        inside = (ward.traits[:, None] >= release.lowest) & (ward.traits[:, None] <= release.highest)
        assert (inside.all(axis=2).sum(axis=1) == 1).all()


def test_a_table_without_names_is_no_secret():
    ward = linkage.random_ward(200, generator=seeded_generator(9))
    assert (linkage.link(linkage.without_names(ward)(ward.traits)) == ward.secrets).all()


def test_two_five_anonymous_tables_undo_each_other():
    """In each table alone the best guess is right for a quarter or so; what both tell is nine in ten."""
    shares = []
    for seed in range(5):
        ward = linkage.random_ward(200, generator=seeded_generator(seed))
        both = linkage.anonymous_tables(ward, k=5)
        alone = [np.mean(linkage.intersect_tables([release], ward.traits) == ward.secrets) for release in both]
        assert max(alone) < 0.4
        shares.append(np.mean(linkage.intersect_tables(both, ward.traits) == ward.secrets))
    assert min(shares) > 0.7
    assert np.mean(shares) > 0.8


def test_what_follows_for_certain_is_always_right():
    """Classes of one person, and classes in which all have one diagnosis."""
    ward = linkage.random_ward(50, generator=seeded_generator(10))
    assert (linkage.intersect_tables([linkage.anonymous_tables(ward, k=1)[0]], ward.traits) == ward.secrets).all()
    same = linkage.Ward(ward.traits, np.full(50, 3))
    assert (linkage.intersect_tables(linkage.anonymous_tables(same, k=10), ward.traits) == 3).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: linkage.random_ward(0, generator=seeded_generator(1)),
        lambda: linkage.random_ward(6001, generator=seeded_generator(1)),
        lambda: tracing.random_study(0, marks=3, generator=seeded_generator(1)),
        lambda: tracing.random_study(3, marks=5001, generator=seeded_generator(1)),
        lambda: random_secrets(0, seeded_generator(1)),
        lambda: seeded_generator(-1),
        lambda: anonymise(np.zeros((3, 1), dtype=np.int64), np.zeros(3, dtype=np.int64), k=4, values=2, order=(0,)),
        lambda: Exact(random_secrets(3, seeded_generator(1))).counts(np.ones((2, 4), dtype=np.bool_)),
    ],
)
def test_what_cannot_be_attacked_is_refused(call):
    with pytest.raises(InvalidArgument, match="is not accepted"):
        call()
