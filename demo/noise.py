"""How much more or less one thing takes than another, round by round, and whether that is noise.

The interval is that of the median, made of the rounds' own ratios (the sign test turned round): it holds however
the rounds scatter, and a disturbed round or two do not decide.

SPDX-License-Identifier: MIT
"""
import math
import statistics
from typing import NamedTuple, Optional

CONFIDENCE = 0.95
FEWEST_ROUNDS = 6  # of five, even all on one side are so by chance in 1 of 16 cases


class Ratio(NamedTuple):
    median: float
    # The ratio is between these with a probability of at least CONFIDENCE; None of too few rounds.
    interval: Optional[tuple]

    @property
    def is_noise(self):
        """Whether "no difference" is as possible as this one; None if nobody can tell."""
        return None if self.interval is None else self.interval[0] <= 1 <= self.interval[1]


def left_out(count):
    """How many of the smallest and of the largest of `count` values the interval of their median goes without:
    None if with all of them it is not sure enough."""
    outside, rank = 0, 0
    while rank < count:
        # That the median is below the rank-th smallest: at most `rank` coins of `count` show heads.
        outside += math.comb(count, rank)
        if 2 * outside > (1 - CONFIDENCE) * 2**count:
            break
        rank += 1
    return rank - 1 if rank > 0 else None


def ratio(values, base):
    """Of rounds in the same order: what both did in one minute of the machine is compared."""
    ratios = sorted(value / other for value, other in zip(values, base, strict=True))
    out = left_out(len(ratios))
    return Ratio(statistics.median(ratios), None if out is None else (ratios[out], ratios[-1 - out]))


def percent(of):
    """1.034 is "+3.4 %", 0.81 is "-19 %"."""
    change = (of - 1) * 100
    if abs(change) < 0.05:
        return "0 %"
    return f"{change:+.0f} %" if abs(change) >= 9.95 else f"{change:+.1f} %"


def words(of):
    """The difference, or that it is none, and between which two it is."""
    if of.is_noise is None:
        return f"{percent(of.median)}?"
    low, high = (percent(end) for end in of.interval)
    between = f"({low.removesuffix(' %')} to {high})" if low != high else ""
    if of.interval == (1, 1):
        return "none"
    return f"{'noise' if of.is_noise else percent(of.median):7} {between}".rstrip()
