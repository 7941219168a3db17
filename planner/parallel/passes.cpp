#include "planner/parallel/passes.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

namespace planner {
namespace {

using core::Field;

constexpr std::int64_t kMaxPart = 1'000'000;
constexpr std::size_t kMaxListed = 3'000'000;  ///< so that a graph of them fits into some hundred megabytes

// ---- notation

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

template <typename Each>
void for_each_between(std::string_view text, char separator, const Each& each) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    each(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
}

/// Takes a number below `end` from the beginning of the text.
std::optional<std::int64_t> take_number(std::string_view& text, std::int64_t end) {
  if (text.empty() || text.front() == '-') return std::nullopt;
  std::int64_t out = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || out >= end) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stopped - text.data()));
  return out;
}

constexpr std::string_view kLetters = "FBIW";  ///< by PassKind

std::optional<Slot> slot_of(std::string_view text) {
  const auto part = take_number(text, kMaxPart);
  if (!part || text.empty()) return std::nullopt;
  const std::size_t kind = kLetters.find(text.front());
  if (kind == std::string_view::npos) return std::nullopt;
  text.remove_prefix(1);
  const auto micro_batch = take_number(text, kMaxMicroBatches);
  if (!micro_batch || !text.empty()) return std::nullopt;
  return Slot{.kind = static_cast<PassKind>(kind), .part = *part, .micro_batch = *micro_batch};
}

void add_passes(const Field& row, std::vector<Slot>& out) {
  const auto add = [&](std::string_view text) {
    if (text.empty()) return;
    const std::optional<Slot> slot = slot_of(text);
    if (!slot)
      row.expected("passes such as 0F0,0B0: a part, one of F, B, I and W, and a micro-batch",
                   fmt::format("'{}'", core::printable(text)));
    if (out.size() == kMaxListed)
      row.expected(fmt::format("at most {} passes in a stage", kMaxListed), "more");
    out.push_back(*slot);
  };
  const std::string text = row.text();
  for_each_between(text, ',', [&](std::string_view place) {
    constexpr std::string_view kTogether = ")OVERLAP_F_B";
    if (place.starts_with('(') && place.ends_with(kTogether))
      for_each_between(place.substr(1, place.size() - 1 - kTogether.size()), ';', add);
    else
      add(place);
  });
}

// ---- whether all can run

/// What a pass computes, as bits: forward, the gradients of inputs, and those of weights.
constexpr unsigned kForward = 1, kInputs = 2, kWeights = 4, kAll = 7;

unsigned computed_by(PassKind kind) {
  switch (kind) {
    case PassKind::forward: return kForward;
    case PassKind::backward: return kInputs | kWeights;
    case PassKind::input_gradients: return kInputs;
    case PassKind::weight_gradients: return kWeights;
  }
  return 0;
}

/// For each micro-batch of each part a set of those bits.
class Table {
 public:
  explicit Table(const Stages& stages, std::int64_t parts)
      : micro_batches_(static_cast<std::size_t>(stages.micro_batches)),
        bits_(static_cast<std::size_t>(parts) * micro_batches_) {}
  unsigned char& at(std::int64_t part, std::int64_t micro_batch) {
    return bits_[static_cast<std::size_t>(part) * micro_batches_ + static_cast<std::size_t>(micro_batch)];
  }

 private:
  std::size_t micro_batches_;
  std::vector<unsigned char> bits_;
};

class Checker {
 public:
  Checker(const Field& rows, std::int64_t pipeline, Stages& stages)
      : rows_(rows), items_(rows.items()), pipeline_(pipeline), stages_(stages) {}

  void run() {
    count();
    place_parts();
    check_each_once();
    check_order();
    stages_.virtual_stages = parts_ / pipeline_;
  }

 private:
  void count() {
    std::size_t listed = 0;
    for (const std::vector<Slot>& passes : stages_.passes) {
      listed += passes.size();
      for (const Slot& slot : passes) {
        parts_ = std::max(parts_, slot.part + 1);
        stages_.micro_batches = std::max(stages_.micro_batches, slot.micro_batch + 1);
      }
    }
    if (static_cast<std::int64_t>(listed) < 2 * parts_ * stages_.micro_batches)
      fail_incomplete(fmt::format("{} passes", listed));
  }

  [[noreturn]] void fail_incomplete(const std::string& got) const {
    rows_.expected(
        fmt::format("a forward and a backward pass of each of {} micro-batches through each of {} parts",
                    stages_.micro_batches, parts_),
        got);
  }

  const Field& row(std::int64_t stage) const { return items_[static_cast<std::size_t>(stage)]; }

  /// A part belongs to the stage that lists its passes.
  void place_parts() {
    constexpr std::int64_t kNone = -1;
    std::vector<std::int64_t>& stage_of = stages_.stage_of_part;
    stage_of.assign(static_cast<std::size_t>(parts_), kNone);
    for (std::int64_t stage = 0; stage < pipeline_; ++stage)
      for (const Slot& slot : stages_.passes[static_cast<std::size_t>(stage)]) {
        std::int64_t& owner = stage_of[static_cast<std::size_t>(slot.part)];
        if (owner == kNone) owner = stage;
        if (owner != stage)
          row(stage).expected(fmt::format("no passes through part {}, which stage {} runs", slot.part, owner),
                              text_of(slot));
      }
    const auto own = [&](std::int64_t stage) { return std::ranges::count(stage_of, stage); };
    for (std::int64_t stage = 0; stage < pipeline_; ++stage) {
      if (own(stage) != own(0))
        rows_.expected("as many parts in each stage",
                       fmt::format("{} in stage 0 and {} in stage {}", own(0), own(stage), stage));
      if (stage_of[static_cast<std::size_t>(stage)] != stage)
        row(stage).expected(fmt::format("part {} in stage {}", stage, stage), "it in another one");
    }
  }

  void check_each_once() const {
    Table listed(stages_, parts_);
    for (std::int64_t stage = 0; stage < pipeline_; ++stage)
      for (const Slot& slot : stages_.passes[static_cast<std::size_t>(stage)]) {
        unsigned char& bits = listed.at(slot.part, slot.micro_batch);
        if ((bits & computed_by(slot.kind)) != 0)
          row(stage).expected("each pass once", fmt::format("{} when it was there", text_of(slot)));
        bits = static_cast<unsigned char>(bits | computed_by(slot.kind));
      }
    for (std::int64_t part = 0; part < parts_; ++part)
      for (std::int64_t micro_batch = 0; micro_batch < stages_.micro_batches; ++micro_batch)
        if (listed.at(part, micro_batch) != kAll)
          fail_incomplete(fmt::format("not both of micro-batch {} through part {}", micro_batch, part));
  }

  /// Runs all stages in turn as far as they come.
  void check_order() const {
    Table done(stages_, parts_);
    std::vector<std::size_t> next(stages_.passes.size());
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t stage = 0; stage < next.size(); ++stage)
        for (; next[stage] < stages_.passes[stage].size(); ++next[stage], moves = true) {
          const Slot& slot = stages_.passes[stage][next[stage]];
          if (!can_run(slot, done)) break;
          unsigned char& bits = done.at(slot.part, slot.micro_batch);
          bits = static_cast<unsigned char>(bits | computed_by(slot.kind));
        }
    }
    for (std::size_t stage = 0; stage < next.size(); ++stage)
      if (next[stage] < stages_.passes[stage].size())
        items_[stage].expected(
            "an order in which every pass comes after those that it needs",
            fmt::format("{}, which waits for ever", text_of(stages_.passes[stage][next[stage]])));
  }

  bool can_run(const Slot& slot, Table& done) const {
    const auto has = [&](std::int64_t part, unsigned bit) {
      return part < 0 || part >= parts_ || (done.at(part, slot.micro_batch) & bit) != 0;
    };
    if (slot.kind == PassKind::forward) return has(slot.part - 1, kForward);
    if (slot.kind == PassKind::weight_gradients) return has(slot.part, kInputs);
    return has(slot.part, kForward) && has(slot.part + 1, kInputs);
  }

  const Field& rows_;
  std::vector<Field> items_;
  std::int64_t pipeline_;
  Stages& stages_;
  std::int64_t parts_ = 0;
};

}  // namespace

std::string text_of(const Slot& slot) {
  return fmt::format("{}{}{}", slot.part, kLetters[static_cast<std::size_t>(slot.kind)], slot.micro_batch);
}

void read_passes(const Field& rows, std::int64_t pipeline, Stages& stages) {
  const std::vector<Field> items = rows.non_empty_items();
  if (static_cast<std::int64_t>(items.size()) != pipeline)
    rows.expected(fmt::format("a text for each stage, {} in all", pipeline), fmt::format("{}", items.size()));
  stages.order = StageOrder::listed;
  for (const Field& item : items) add_passes(item, stages.passes.emplace_back());
  Checker(rows, pipeline, stages).run();
}

}  // namespace planner
