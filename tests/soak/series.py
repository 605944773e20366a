"""What series of samples say: percentiles, growth, drift. Pure functions.

Times are seconds, or step numbers in runs that are bounded by counts: only
their proportions matter.

SPDX-License-Identifier: MIT
"""
import math
import statistics

# A life's beginning, as a part of the whole run: the program still fills its caches.
SETTLING = 0.1


def percentile(values, percent):
    """The smallest value that `percent` per cent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def settled(lives, length):
    """The samples of the last two thirds of a run of `length`, without the
    beginning of each life. `lives` has a list of (time, value) for each process."""
    kept = []
    for life in lives:
        begin = max(length / 3, life[0][0] + SETTLING * length) if life else 0
        kept.append([(at, value) for at, value in life if at >= begin])
    return [life for life in kept if len(life) > 1]


def slope(lives):
    """The median slope between any two samples of the same life that are at least
    a third of the longest life apart (Theil and Sen): single peaks do not move
    it, and a restart is not a fall. None where no two samples are so far apart."""
    longest = max((life[-1][0] - life[0][0] for life in lives), default=0)
    slopes = []
    for life in lives:
        # Some hundred samples of each life are enough, and the pairs stay few.
        thin = life[::max(1, len(life) // 200)]
        slopes += [(b - a) / (t - s) for i, (s, a) in enumerate(thin) for t, b in thin[i + 1:]
                   if t - s >= longest / 3 and t > s]
    return statistics.median(slopes) if slopes else None


def growth(lives, length):
    """(level, growth over the last two thirds of the run at the median slope), or None."""
    kept = settled(lives, length)
    rate = slope(kept)
    if rate is None:
        return None
    return statistics.median(value for life in kept for _, value in life), rate * length * 2 / 3


def drift(points, length):
    """The median of the last third over that of the middle third, or None.
    `points` has (time, value)."""
    middle = [value for at, value in points if length / 3 <= at < length * 2 / 3]
    last = [value for at, value in points if at >= length * 2 / 3]
    if len(middle) < 5 or len(last) < 5:
        return None
    return statistics.median(last) / max(statistics.median(middle), 1)
