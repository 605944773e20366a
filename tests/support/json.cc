/* See json.h. SPDX-License-Identifier: MIT */
#include "json.h"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>

namespace hak_test {
namespace {

class Parser {
 public:
  Parser(const std::string &text, std::map<std::string, double> *numbers) : text_(text), numbers_(numbers) {}

  bool document() {
    space();
    if (peek() != '{') return fail("no object");
    if (!value("")) return false;
    space();
    return at_ == text_.size() || fail("text after the object");
  }
  const std::string &error() const { return error_; }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool eat(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    at_++;
    return true;
  }
  void space() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr) at_++;
  }
  bool fail(const char *what) {
    if (error_.empty()) error_ = std::string(what) + " at byte " + std::to_string(at_);
    return false;
  }

  bool value(const std::string &path) {
    space();
    switch (peek()) {
      case '{': return object(path);
      case '[': return array(path);
      case '"': {
        std::string ignored;
        return string(&ignored);
      }
      case 't': return word("true");
      case 'f': return word("false");
      case 'n': return word("null");
      default: return number(path);
    }
  }
  bool word(const char *expected) {
    if (text_.compare(at_, std::strlen(expected), expected) != 0) return fail("unknown word");
    at_ += std::strlen(expected);
    return true;
  }
  static std::string join(const std::string &path, const std::string &name) {
    return path.empty() ? name : path + "." + name;
  }
  bool object(const std::string &path) {
    std::set<std::string> names;
    eat('{');
    space();
    if (eat('}')) return true;
    do {
      space();
      std::string name;
      if (!string(&name)) return false;
      if (!names.insert(name).second) return fail("a name twice in one object");
      space();
      if (!eat(':')) return fail("no colon");
      if (!value(join(path, name))) return false;
      space();
    } while (eat(','));
    return eat('}') || fail("no closing brace");
  }
  bool array(const std::string &path) {
    eat('[');
    space();
    if (eat(']')) return true;
    std::size_t index = 0;
    do {
      if (!value(join(path, std::to_string(index++)))) return false;
      space();
    } while (eat(','));
    return eat(']') || fail("no closing bracket");
  }
  bool string(std::string *out) {
    if (!eat('"')) return fail("no string");
    while (at_ < text_.size() && text_[at_] != '"') {
      unsigned char c = static_cast<unsigned char>(text_[at_]);
      if (c < 0x20) return fail("control character in a string");
      if (c == '\\') {
        at_++;
        if (peek() == 'u') {
          for (int i = 0; i < 4; i++) {
            at_++;
            if (!std::isxdigit(static_cast<unsigned char>(peek()))) return fail("bad \\u");
          }
        } else if (at_ >= text_.size() || std::strchr("\"\\/bfnrt", peek()) == nullptr) {
          return fail("bad escape");
        }
      }
      *out += text_[at_++];
    }
    return eat('"') || fail("string without an end");
  }
  bool number(const std::string &path) {
    std::size_t start = at_;
    auto digits = [&] {
      std::size_t from = at_;
      while (std::isdigit(static_cast<unsigned char>(peek()))) at_++;
      return at_ > from;
    };
    eat('-');
    bool leading_zero = peek() == '0';
    std::size_t first = at_;
    if (!digits()) return fail("no value");
    if (leading_zero && at_ > first + 1) return fail("leading zero");
    if (eat('.') && !digits()) return fail("no digit after the point");
    if (peek() == 'e' || peek() == 'E') {
      at_++;
      if (!eat('+')) eat('-');
      if (!digits()) return fail("no digit in the exponent");
    }
    (*numbers_)[path] = std::strtod(text_.c_str() + start, nullptr);
    return true;
  }

  const std::string &text_;
  std::map<std::string, double> *numbers_;
  std::size_t at_ = 0;
  std::string error_;
};

}  // namespace

bool parse_json_object(const std::string &text, std::map<std::string, double> *numbers, std::string *error) {
  Parser parser(text, numbers);
  bool good = parser.document();
  *error = parser.error();
  return good;
}

}  // namespace hak_test
