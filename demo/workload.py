"""A Python program with real work for the allocator: documents are built,
written as JSON and parsed again, indexed in dictionaries, linked into object
graphs with reference cycles, joined, split and sorted.

Usage: workload.py [SCALE]    what it prints depends on SCALE and the Python alone

SPDX-License-Identifier: MIT
"""
import collections
import gc
import hashlib
import json
import random
import sys

DOCUMENTS = 16000
ROUNDS = 6


def documents(draw, count):
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(2, 9))) for _ in range(3000)]
    for number in range(count):
        yield {
            "id": number,
            "title": " ".join(draw.choices(words, k=4)),
            "tags": draw.choices(words, k=draw.randint(1, 8)),
            "size": {"width": draw.random(), "height": draw.random()},
            "text": " ".join(draw.choices(words, k=draw.randint(5, 60))),
        }


class Node:
    """Knows its parent and its children: freed by the cycle collector alone."""

    def __init__(self, parent, document):
        self.parent, self.children, self.document = parent, [], document
        if parent is not None:
            parent.children.append(self)


def graph(draw, found):
    nodes = [Node(None, found[0])]
    for document in found[1:]:
        nodes.append(Node(nodes[draw.randrange(max(0, len(nodes) - 500), len(nodes))], document))
    return nodes[0]


def depth(root):
    level, levels = [root], 0
    while level:
        level, levels = [child for node in level for child in node.children], levels + 1
    return levels


def one_round(draw, count):
    lines = "\n".join(json.dumps(document) for document in documents(draw, count))
    found = [json.loads(line) for line in lines.split("\n")]

    index = collections.defaultdict(set)
    for document in found:
        for word in document["text"].split():
            index[word].add(document["id"])
    common = sorted(index, key=lambda word: (-len(index[word]), word))[:100]

    levels = depth(graph(draw, found))
    gc.collect()
    order = sorted(found, key=lambda document: (document["title"], document["id"]))
    page = "".join(f"<li>{document['title'].title()} {document['size']['width']:.6f}</li>\n" for document in order)
    return [len(lines), len(page), levels, common[:5],
            hashlib.sha256((lines + page + " ".join(common)).encode()).hexdigest()]


def main():
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    draw = random.Random(2)
    for number in range(ROUNDS):
        print(number, *one_round(draw, max(1, int(DOCUMENTS * scale))))


main()
