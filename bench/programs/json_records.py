"""Reads a JSON document, regroups it, writes it and reads it again: json_records.py FILE

SPDX-License-Identifier: MIT
"""
import collections
import hashlib
import json
import sys

with open(sys.argv[1]) as source:
    customers = json.load(source)["customers"]

by_item = collections.defaultdict(list)
by_tag = collections.Counter()
for customer in customers:
    by_tag.update(customer["tags"])
    for order in customer["orders"]:
        total = round(order["price"] * order["quantity"], 2)
        by_item[order["item"]].append({"customer": customer["name"], "total": total})

for sold in by_item.values():
    sold.sort(key=lambda one: (-one["total"], one["customer"]))
report = {
    "items": dict(sorted(by_item.items())),
    "tags": dict(sorted(by_tag.items(), key=lambda pair: (-pair[1], pair[0]))),
    "active": [customer for customer in customers if customer["active"]],
}
text = json.dumps(report, indent=1, sort_keys=True)
again = json.loads(text)
print(len(text), hashlib.sha256(text.encode()).hexdigest(), again == report)
