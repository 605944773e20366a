"""Named checks over the record of one server.

The tolerances are wide: this finds what grows without bound, not what grew by
a tenth. Each check gives (name, whether it passed, what was seen).

SPDX-License-Identifier: MIT
"""
import statistics

import series

MIB = 1024  # KiB
GROWTH_SHARE, GROWTH_FLOOR = 0.25, 16 * MIB  # over the last two thirds of a run
SHORT_FLOOR = 64 * MIB  # the same in a run that is bounded by steps: programs still fill up then
FALL_SHARE, FALL_FLOOR = 0.4, 12 * MIB  # of what load added; of each process, little enough to be left alone
SHORT_SHARE = 0.25  # the same in a run that is bounded by steps: threads that sleep keep what they have
DRIFT = 2.5  # the median latency of the last third over that of the middle third


def fallen(base, level, processes, share=FALL_SHARE):
    """The most that may be resident after a load with this level."""
    return max(base + FALL_FLOOR * processes, level - share * (level - base))


def nothing(name, found, otherwise):
    shown = "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")
    return name, not found, shown or otherwise


def grows(record, floor):
    found = series.growth(record.lives(), record.length)
    if found is None:
        return "resident size is bounded", False, "there are too few samples to judge"
    level, growth = found
    return ("resident size is bounded", growth <= GROWTH_SHARE * level + floor,
            f"{growth / MIB:+.1f} MiB over the last two thirds at a level of {level / MIB:.1f} MiB")


def falls(record, share=FALL_SHARE):
    values = [value for life in series.settled(record.lives(), record.length) for _, value in life]
    if not values:
        return "resident size falls after the load", False, "there are too few samples to judge"
    level = statistics.median(values)
    return ("resident size falls after the load", record.after <= fallen(record.base, level, record.processes, share),
            f"{record.base / MIB:.1f} MiB before, {level / MIB:.1f} under load, {record.after / MIB:.1f} after")


def drifts(record):
    calm = [(point.at, point.p50) for point in record.latencies if not point.disturbed and point.requests]
    ratio = series.drift(calm, record.length)
    if ratio is None:
        return "latency does not drift", False, "there are too few calm seconds to judge"
    return "latency does not drift", ratio <= DRIFT, f"the last third's median is {ratio:.2f} of the middle third's"


def checks(record, timed, preloaded):
    """`timed`: the run was bounded by time, so that its latencies can be judged."""
    made = [nothing("no crash", record.crashes, f"{len(record.lives())} lives"),
            nothing("no report of hakmem", record.reports, "no line on its outputs"),
            nothing("nothing lost or damaged", record.wrong, f"{record.requests} requests"),
            nothing("no error without a cause", record.errors, f"{record.excused} that events excuse"),
            grows(record, GROWTH_FLOOR if timed else SHORT_FLOOR), falls(record, FALL_SHARE if timed else SHORT_SHARE)]
    if timed:
        made.append(drifts(record))
    if preloaded:
        made.append(("served by hakmem", not record.served, record.served or "its statistics say so"))
    return [(f"{record.name}: {name}", passed, seen) for name, passed, seen in made]
