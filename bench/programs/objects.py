"""Objects that refer to each other, in cycles too, made and dropped: objects.py ROUNDS

SPDX-License-Identifier: MIT
"""
import gc
import sys
from dataclasses import dataclass, field


@dataclass
class Node:
    key: int
    left: "Node | None" = None
    right: "Node | None" = None
    parent: "Node | None" = None  # makes every tree a heap of cycles
    label: str = ""
    visits: list = field(default_factory=list)


def insert(root, key):
    node = root
    while True:
        node.visits.append(key)
        side = "left" if key < node.key else "right"
        child = getattr(node, side)
        if child is None:
            setattr(node, side, Node(key, parent=node, label=f"node {key}"))
            return
        node = child


def depth(node):
    return 0 if node is None else 1 + max(depth(node.left), depth(node.right))


rounds = int(sys.argv[1])
state, depths, labels = 1, [], 0
for number in range(rounds):
    state = state * 1103515245 % 2147483648 + 12345
    root = Node(state)
    for _ in range(1200):
        state = (state * 1103515245 + 12345) % 2147483648
        insert(root, state)
    depths.append(depth(root))
    labels += sum(len(child.label) for child in (root.left, root.right) if child)
    root = None
    if number % 8 == 7:
        gc.collect()
print(sum(depths), max(depths), labels)
