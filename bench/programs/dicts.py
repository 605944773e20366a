"""Counts words and builds indexes in dictionaries that grow and shrink: dicts.py PARAGRAPHS

SPDX-License-Identifier: MIT
"""
import sys

paragraphs = int(sys.argv[1])

# A linear congruential generator gives the words: the same in every version.
state = 1
neighbours, positions = {}, {}
live = []
for number in range(paragraphs):
    words = []
    for _ in range(40):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        words.append(f"w{(state >> 33) % ((state >> 20) % 5000 + 1)}")
    line = " ".join(words)
    for place, word in enumerate(line.split()):
        positions.setdefault(word, []).append((number, place))
    for left, right in zip(words, words[1:]):
        following = neighbours.setdefault(left, {})
        following[right] = following.get(right, 0) + 1
    live.append({"number": number, "line": line, "set": set(words)})
    if number % 4 == 3:  # the oldest of the last four goes
        gone = live.pop(len(live) - 4)
        for word in gone["set"]:
            positions[word] = [place for place in positions[word][-50:] if place[0] != gone["number"]]

pairs = ((count, left, right) for left, following in neighbours.items() for right, count in following.items())
best = sorted(pairs, reverse=True)
print(len(live), len(neighbours), len(best), sum(map(len, positions.values())), best[:3])
