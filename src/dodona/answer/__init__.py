"""Answers: values, valid intervals and prices; and offers, before anything is spent.

- `answer`: `Answer`, evaluated lazily; `offer`: `Offer`, before it is bought
- `measured`, `derived`: the values behind an answer, newly measured or derived from earlier releases
- `laws`, `sums`: the laws of their errors, and `half_width`
- `evaluation`, `bands`, `ratios`, `quantiles`, `view`: intervals of expressions over those values
- `prediction`: how accurate an answer would be
- `rows`, `mechanism`: rows of an answer, and its noise in words
- `estimate`, `display`, `picture`, `recorded`, `results`, `description`: values with their intervals, their text and
  drawings, and whatever else a caller gets; standard library only, as clients of a server use them without the rest
"""
