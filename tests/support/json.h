/*
 * A strict reader of JSON (RFC 8259), enough to check what the library writes.
 *
 * SPDX-License-Identifier: MIT
 */
#ifndef HAK_TESTS_SUPPORT_JSON_H
#define HAK_TESTS_SUPPORT_JSON_H

#include <map>
#include <string>

namespace hak_test {

/* Parses `text`, which must be one object and nothing after it but white space.
 * Fills `numbers` with every number in it, by path: {"a":{"b":[1,2]}} gives
 * a.b.0 = 1 and a.b.1 = 2. On failure `error` says what is wrong and where. */
bool parse_json_object(const std::string &text, std::map<std::string, double> *numbers, std::string *error);

}  // namespace hak_test
#endif
