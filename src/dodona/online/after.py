"""What becomes of questions that the budget cannot buy, as the owner chose."""

from __future__ import annotations

from typing import Literal

After = Literal["refuse", "model"]
"""They are refused, or the model guesses: marked, without a guarantee, and for nothing."""
