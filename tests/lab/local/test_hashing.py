"""Hash functions: pairs of hashes are uniform over the field, and chances of collisions are exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dodona.lab.local.hashing import PRIME, collision, draw_functions, fingerprint, hash_key, hash_keys

ALARM = 1e-9


@pytest.mark.parametrize("buckets", [2, 3, 4, 63, 65536])
def test_vectors_and_integers_have_the_same_hashes(buckets: int):
    top = PRIME - 1
    edges = [[top, top, top], [0, 0, 0], [1, 0, 0], [top, top, 1], [1, 1, top]]
    seeds = np.concatenate([draw_functions(2_000), np.array(edges, dtype=np.uint64)])
    for key in ((top, top), (0, 0), (1, 0), fingerprint("oak"), (0, top)):
        hashed = hash_keys(seeds, np.array(key, dtype=np.uint64), buckets)
        assert hashed.tolist() == [hash_key(seed, key, buckets) for seed in seeds.tolist()]
        assert int(hashed.max()) < buckets


@pytest.mark.parametrize("prime", [7, 31, 127])
def test_in_a_small_field_two_labels_have_every_pair_of_hashes_equally_often(prime: int):
    """The map (a, b) to (a·x + b, a·y + b) is a bijection for x ≠ y: gone through for all a and b."""
    for x, y in ((0, 1), (1, prime - 1), (2, 5)):
        pairs = {((a * x + b) % prime, (a * y + b) % prime) for a in range(prime) for b in range(prime)}
        assert len(pairs) == prime * prime


@pytest.mark.parametrize("buckets", [2, 3, 4, 7, 21, 1000, 65536])
def test_the_chance_of_a_collision_counts_the_elements_of_every_bucket(buckets: int):
    """The last element of a bucket is found by division, another way round than in the code."""
    lasts = [min(((bucket + 1 << 31) - 1) // buckets, PRIME - 1) for bucket in range(buckets)]
    sizes = np.diff(np.array([-1, *lasts])).tolist()
    assert all(last * buckets >> 31 == bucket for bucket, last in enumerate(lasts))
    assert sum(sizes) == PRIME
    assert collision(buckets) == Fraction(sum(size**2 for size in sizes), PRIME**2)
    assert collision(buckets) >= Fraction(1, buckets)


@pytest.mark.distribution
@pytest.mark.parametrize("keys", [((0, 0), (1, 0)), ((0, 1), (0, PRIME - 1)), ((3, 5), (5, 3))], ids=str)
def test_drawn_functions_spread_two_labels_over_all_pairs_of_buckets(keys):
    """900,000 functions, 9 pairs: chi-square at 10^-9."""
    seeds = draw_functions(900_000)
    first, second = (hash_keys(seeds, np.array(key, dtype=np.uint64), 3).astype(np.int64) for key in keys)
    seen = np.bincount(3 * first + second, minlength=9)
    assert chi2.sf(np.sum((seen - 1e5) ** 2 / 1e5), 8) > ALARM


@pytest.mark.distribution
def test_functions_of_two_rows_are_drawn_apart():
    """400,000 respondents with two functions each: the pair of buckets of one label, at 10^-9."""
    first, two = np.hsplit(draw_functions(400_000, 2), 2)
    key = np.array(fingerprint("oak"), dtype=np.uint64)
    seen = np.bincount((2 * hash_keys(first, key, 2) + hash_keys(two, key, 2)).astype(np.int64), minlength=4)
    assert chi2.sf(np.sum((seen - 1e5) ** 2 / 1e5), 3) > ALARM


def test_fingerprints_are_two_elements_of_the_field_and_differ():
    prints = [fingerprint(f"label {number}") for number in range(20_000)]
    assert len(set(prints)) == 20_000  # false alarm 2^-34
    assert all(0 <= part < PRIME for pair in prints for part in pair)
