"""Which events hit a server, and when: all of it follows from the seed.

An event's time is a fraction of the run. The kinds are dealt like cards, so
that each comes as often as the others. In the last third nothing ends a server:
one life of that length at least shows whether memory creeps up.

SPDX-License-Identifier: MIT
"""
import random

KILL = "kill"
SHORTEST, LONGEST = 0.01, 0.06  # of the run: how long a limit stays in force


class Event:
    def __init__(self, at, kind, length):
        self.at, self.kind, self.length = at, kind, length

    def __repr__(self):
        return f"{self.kind} at {self.at:.3f} for {self.length:.3f}"


def generator(seed, *path):
    """A generator of its own for each purpose: what one draws does not change another's."""
    return random.Random(":".join(str(part) for part in (seed, *path)))


def events(seed, name, kinds, fatal, count):
    """`count` events, in order, of the kinds that the server called `name` can stand; `fatal` ones end a life of it."""
    draw = generator(seed, name, "events")
    times = sorted(draw.uniform(0.05, 0.97) for _ in range(count))
    planned, deck = [], []
    for at in times:
        if not deck:
            deck = draw.sample(kinds, len(kinds))
        # One that ends a life and comes too late goes back below the deck.
        kind = next((kind for kind in deck if kind not in fatal or at < 2 / 3), None)
        if kind is None:
            deck = [kind for kind in draw.sample(kinds, len(kinds)) if kind not in fatal] or [None]
            kind = deck[0]
        if kind is None:
            continue
        deck.remove(kind)
        planned.append(Event(at, kind, draw.uniform(SHORTEST, LONGEST)))
    return planned
