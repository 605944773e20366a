# Regroups the customers of records.json: jq -c -f records.jq records.json
# SPDX-License-Identifier: MIT
.customers
| map(tojson | fromjson)
| [ .[] | select(.active) | {name, city: .address.street, spent: ([.orders[] | .price * .quantity] | add // 0)} ] as $active
| ([ .[].orders[].item | split(" ")[] ] | group_by(.) | map({(.[0]): length}) | add) as $items
| $active
| group_by(.city)
| map({city: .[0].city, customers: length, spent: (map(.spent) | add | floor), names: [.[].name | ascii_upcase] | sort | unique})
| sort_by(-.spent, .city)
| (.[:10][] | del(.names) + {first: .names[0]}), ($items | to_entries | sort_by(-.value, .key) | .[:10] | from_entries)
