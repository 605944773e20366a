/* See model.h. SPDX-License-Identifier: MIT */
#include "model.h"

#include "fail.h"
#include "pattern.h"

#include <cstring>

namespace hak_fuzz {
namespace {

class Locked {
 public:
  explicit Locked(const Model &model) : model_(model) { model_.lock(); }
  ~Locked() { model_.unlock(); }

 private:
  const Model &model_;
};

void *address_of(const Block &block) { return block.at; }

}  // namespace

/* ---- The interval map ------------------------------------------------------------*/

/* How many blocks start before the address. */
std::size_t Model::position(const unsigned char *at) const {
  std::size_t low = 0, high = count_;
  while (low < high) {
    std::size_t middle = (low + high) / 2;
    if (blocks_[by_address_[middle]].at < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

std::uint32_t Model::insert(const Block &b) {
  std::size_t where = position(b.at);
  for (std::size_t i = where > 0 ? where - 1 : 0; i < count_ && i <= where; i++) {
    const Block &other = blocks_[by_address_[i]];
    if (other.at < b.at + b.usable && b.at < other.at + other.usable)
      fail("the block %p of %zu bytes overlaps the live block %p of %zu bytes", address_of(b), b.usable,
           address_of(other), other.usable);
  }
  std::uint32_t id = unused_count_ > 0 ? unused_[--unused_count_] : static_cast<std::uint32_t>(fresh_++);
  std::memmove(by_address_ + where + 1, by_address_ + where, (count_ - where) * sizeof *by_address_);
  by_address_[where] = id;
  blocks_[id] = b;
  count_++;
  asked_bytes_ += b.bytes;
  usable_bytes_ += b.usable;
  cost_bytes_ += b.bytes + b.alignment;
  if (cost_bytes_ > peak_bytes_) peak_bytes_ = cost_bytes_.load();
  enlist(id, b.holder);
  return id;
}

void Model::enlist(std::uint32_t id, unsigned holder) {
  blocks_[id].holder = static_cast<std::uint8_t>(holder);
  blocks_[id].place = static_cast<std::uint32_t>(held_count_[holder]);
  held_[holder][held_count_[holder]++] = id;
}

void Model::unlist(std::uint32_t id) {
  unsigned holder = blocks_[id].holder;
  std::uint32_t last = held_[holder][--held_count_[holder]];
  held_[holder][blocks_[id].place] = last;
  blocks_[last].place = blocks_[id].place;
}

/* ---- Blocks that come and go -------------------------------------------------------*/
std::uint32_t Model::add(const Block &b) {
  if (b.at == nullptr) fail("a null pointer is no block");
  if (reinterpret_cast<std::uintptr_t>(b.at) % b.alignment != 0)
    fail("the block %p of %zu bytes is not aligned to %zu", address_of(b), b.bytes, b.alignment);
  if (b.usable < b.bytes)
    fail("the block %p was asked for with %zu bytes and has %zu", address_of(b), b.bytes, b.usable);
  Locked locked(*this);
  return insert(b);
}

void Model::write(std::uint32_t id) {
  Block &b = blocks_[id];
  write_pattern(b.at, b.bytes, b.key);
  /* What may be used beyond is the program's, too. */
  std::size_t beyond = b.usable - b.bytes < 64 ? b.usable - b.bytes : 64;
  std::memset(b.at + b.bytes, 0xb1, beyond);
  if (b.usable > b.bytes + 64) std::memset(b.at + b.usable - 8, 0xb1, 8);
  Locked locked(*this);
  b.is_written = true;
}

Block Model::take(std::uint32_t id) {
  check(id);
  Locked locked(*this);
  Block b = blocks_[id];
  std::size_t where = position(b.at);
  std::memmove(by_address_ + where, by_address_ + where + 1, (count_ - where - 1) * sizeof *by_address_);
  unlist(id);
  count_--;
  asked_bytes_ -= b.bytes;
  usable_bytes_ -= b.usable;
  cost_bytes_ -= b.bytes + b.alignment;
  unused_[unused_count_++] = id;
  return b;
}

std::uint32_t Model::put_back(const Block &block) {
  std::uint32_t id;
  {
    Locked locked(*this);
    id = insert(block);
  }
  check(id);
  return id;
}

/* ---- Choosing ------------------------------------------------------------------------*/
std::uint32_t Model::pick(unsigned holder, std::size_t number) const {
  Locked locked(*this);
  return held_count_[holder] > 0 ? held_[holder][number % held_count_[holder]] : kNone;
}

std::uint32_t Model::pick_of_all(std::size_t number) const {
  Locked locked(*this);
  return count_ > 0 ? by_address_[number % count_] : kNone;
}

void Model::hand_over(std::uint32_t id, unsigned holder) {
  Locked locked(*this);
  unlist(id);
  enlist(id, holder);
}

void Model::share_out(unsigned threads) {
  for (std::size_t i = 0; i < count_; i++) hand_over(by_address_[i], static_cast<unsigned>(1 + i % threads));
}

/* ---- Contents --------------------------------------------------------------------------*/
void Model::check(std::uint32_t id) const {
  const Block &b = blocks_[id];
  if (!b.is_written) return;
  std::size_t where = pattern_differs(b.at, b.bytes, b.bytes, b.key);
  if (where != SIZE_MAX)
    fail("the live block %p of %zu bytes has lost its contents at byte %zu", address_of(b), b.bytes, where);
}

void Model::check_all() const {
  for (std::size_t i = 0; i < count_; i++) check(by_address_[i]);
}

}  // namespace hak_fuzz
