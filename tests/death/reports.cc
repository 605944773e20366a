/* See reports.h. A file of its own: regular expressions take long to compile.
 * SPDX-License-Identifier: MIT */
#include "death/reports.h"

#include <regex>

bool Reports::MatchAndExplain(const std::string &text, testing::MatchResultListener *why) const {
  std::smatch announced;
  if (!std::regex_search(text, announced, std::regex("victim (0x[0-9a-f]+|\\(nil\\)) of ([0-9]+) bytes"))) {
    *why << "the program never got to its mistake";
    return false;
  }
  std::string report;
  int reports = 0;
  for (std::size_t at = 0; (at = text.find("hakmem: ", at)) != std::string::npos; at++) {
    report = text.substr(at, text.find('\n', at) - at);
    reports++;
  }
  if (reports != 1) {
    *why << reports << " lines are a report of hakmem";
    return false;
  }
  auto demand = [&](const std::string &pattern) {
    if (std::regex_search(report, std::regex(pattern, std::regex::icase))) return true;
    *why << "the report has nothing like \"" << pattern << "\"";
    return false;
  };
  return demand(announced[1].str() + "\\b") && demand(what_) &&
         (!with_size_ || demand("\\b" + announced[2].str() + "\\b"));
}
