"""AIM as the package dpmm has it, run by an interpreter of its own: it pins old versions of NumPy and pandas.

`PYTHON aim_peer.py FOLDER EPSILON DELTA` reads `codes.npy` and `shape.npy` from a folder, fits all three-way marginals,
writes `rows.npy`, and prints the CPU seconds. Nothing of Dodona is imported. The model is limited to 1 MB,
with three rounds a column to start with: AIM's own defaults, 80 MB and 16 rounds a column, take hours.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from dpmm.models.aim import AIM  # type: ignore[import-not-found]

MEGABYTES = 1.0
STEPS = 1000
ROUNDS_PER_COLUMN = 3


def main(folder: Path, epsilon: float, delta: float) -> None:
    """Fit AIM to the codes of a folder, and write as many rows."""
    codes, shape = np.load(folder / "codes.npy"), np.load(folder / "shape.npy")
    names = [f"column_{place + 1}" for place in range(codes.shape[1])]
    began = time.process_time()
    model = AIM(
        epsilon=epsilon,
        delta=delta,
        prng=np.random.RandomState(),
        max_model_size=MEGABYTES,
        n_iters=STEPS,
        rounds=ROUNDS_PER_COLUMN * len(names),
        degree=min(3, len(names)),
        max_cells=10**9,
        domain={name: int(size) for name, size in zip(names, shape, strict=True)},
        n_jobs=1,
    )
    model.fit(pd.DataFrame(codes, columns=names))
    made = model.generate(len(codes))
    print(time.process_time() - began)
    np.save(folder / "rows.npy", np.asarray(made[names], dtype=np.int64))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
