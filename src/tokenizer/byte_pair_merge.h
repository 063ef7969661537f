// Byte pair merging: of all adjacent parts whose union is a token, the two of the lowest rank
// become one, the leftmost first, until none are left. The parts begin as single bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tokenizer/rank_table.h"

namespace weir {

// Merges one piece and calls `emit(rank)` for each token of it, in order.
class BytePairMerge {
 public:
  // `readable` as in RankTable::find().
  BytePairMerge(const RankTable& ranks, const char* begin, const char* end, const char* readable)
      : ranks_(ranks),
        begin_(begin),
        size_(static_cast<std::uint32_t>(end - begin)),
        readable_(readable) {}

  template <class Emit>
  void run(Emit&& emit) const {
    if (size_ <= kScannedMax) {
      scan(emit);
    } else {
      queue(emit);
    }
  }

 private:
  // Up to this size the lowest rank is found by looking at all: n^2, but faster than a queue.
  static constexpr std::uint32_t kScannedMax = 96;

  std::uint32_t find(std::uint32_t from, std::uint32_t to) const {
    return ranks_.find(begin_ + from, begin_ + to, readable_);
  }

  template <class Emit>
  void scan(Emit& emit) const {
    struct Part {
      std::uint32_t begin;
      std::uint32_t rank_with_next;
    };
    std::array<Part, kScannedMax + 1> parts;  // the last is the end
    std::uint32_t count = size_;
    for (std::uint32_t i = 0; i < count; ++i) {
      parts[i] = {i, i + 1 < count ? ranks_.find_pair(begin_ + i) : RankTable::kNone};
    }
    parts[count] = {size_, RankTable::kNone};
    const auto rank_from = [&](std::uint32_t i) {
      return i + 2 <= count ? find(parts[i].begin, parts[i + 2].begin) : RankTable::kNone;
    };
    while (true) {
      const auto lowest = std::min_element(
          parts.begin(), parts.begin() + count,
          [](const Part& a, const Part& b) { return a.rank_with_next < b.rank_with_next; });
      if (lowest->rank_with_next == RankTable::kNone) break;
      const auto i = static_cast<std::uint32_t>(lowest - parts.begin());
      std::copy(parts.begin() + i + 2, parts.begin() + count + 1, parts.begin() + i + 1);
      --count;
      parts[i].rank_with_next = rank_from(i);
      if (i > 0) parts[i - 1].rank_with_next = rank_from(i - 1);
    }
    for (std::uint32_t i = 0; i < count; ++i) emit(token(parts[i].begin, parts[i + 1].begin));
  }

  // The same with a queue of pairs by rank and place: n log n.
  template <class Emit>
  void queue(Emit& emit) const {
    struct Part {  // by the place of its first byte
      std::uint32_t previous;
      std::uint32_t next;
      std::uint32_t rank_with_next;
    };
    std::vector<Part> parts(size_);
    std::vector<std::uint64_t> pairs;  // rank << 32 | place; stale if the part has another rank
    const auto pair = [](std::uint32_t rank, std::uint32_t place) {
      return std::uint64_t{rank} << 32 | place;
    };
    for (std::uint32_t i = 0; i < size_; ++i) {
      const std::uint32_t rank = i + 1 < size_ ? ranks_.find_pair(begin_ + i) : RankTable::kNone;
      parts[i] = {i - 1, i + 1, rank};
      if (rank != RankTable::kNone) pairs.push_back(pair(rank, i));
    }
    std::ranges::make_heap(pairs, std::greater{});
    const auto rank_again = [&](std::uint32_t i) {
      const std::uint32_t next = parts[i].next;
      const std::uint32_t rank = next < size_ ? find(i, parts[next].next) : RankTable::kNone;
      parts[i].rank_with_next = rank;
      if (rank == RankTable::kNone) return;
      pairs.push_back(pair(rank, i));
      std::ranges::push_heap(pairs, std::greater{});
    };
    while (!pairs.empty()) {
      std::ranges::pop_heap(pairs, std::greater{});
      const auto rank = static_cast<std::uint32_t>(pairs.back() >> 32);
      const auto i = static_cast<std::uint32_t>(pairs.back());
      pairs.pop_back();
      if (parts[i].rank_with_next != rank) continue;
      Part& absorbed = parts[parts[i].next];
      absorbed.rank_with_next = RankTable::kNone;
      parts[i].next = absorbed.next;
      if (absorbed.next < size_) parts[absorbed.next].previous = i;
      rank_again(i);
      if (i > 0) rank_again(parts[i].previous);
    }
    for (std::uint32_t i = 0; i < size_; i = parts[i].next) emit(token(i, parts[i].next));
  }

  std::uint32_t token(std::uint32_t from, std::uint32_t to) const {
    return to - from == 1 ? ranks_.find_byte(begin_[from]) : find(from, to);
  }

  const RankTable& ranks_;
  const char* begin_;
  std::uint32_t size_;
  const char* readable_;
};

}  // namespace weir
