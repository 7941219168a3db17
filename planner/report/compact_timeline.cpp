#include "planner/report/compact_timeline.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/printable.hpp"

namespace report {
namespace {

using nlohmann::ordered_json;
using sim::Time;

/// The order in which the page numbers them.
constexpr std::array<std::string_view, 7> kCategories = {
    "input", "forward", "backward", "compression", "communication", "update", "cycle"};
constexpr std::string_view kCycle = "cycle";

struct Piece {
  std::size_t lane = 0;
  std::size_t category = 0;
  std::string name;
  std::string details;
  Time start{};
  Time end{};
  std::size_t tasks = 1;
};

std::size_t category_index(std::string_view name) {
  const auto found = std::ranges::find(kCategories, name);
  return static_cast<std::size_t>(found - kCategories.begin());
}

/// The text of a JSON string among a slice's arguments, or its number.
std::string argument(const core::Slice& slice, std::string_view key) {
  for (const auto& [name, value] : slice.arguments)
    if (name == key) return value.front() == '"' ? ordered_json::parse(value).get<std::string>() : value;
  return {};
}

std::string details_of(const core::Slice& slice) {
  const std::string bytes = argument(slice, "bytes");
  std::string out = bytes.empty() ? "" : fmt::format("{:.4g} MB", std::stod(bytes) / 1e6);
  const std::string first = argument(slice, "first");
  const std::string last = argument(slice, "last");
  if (!first.empty()) out += ", " + (first == last ? first : fmt::format("{} .. {}", first, last));
  const std::string transfer = argument(slice, "transfer");
  return transfer.empty() ? out : out + ", " + transfer;
}

bool is_compute(const scenarios::WorkerTimeline& timeline, const core::Slice& slice) {
  return timeline.tracks[slice.track].thread.rfind("compute", 0) == 0;
}

std::vector<Piece> pieces_of(const scenarios::WorkerTimeline& timeline) {
  std::vector<Piece> out;
  for (const core::Slice& slice : timeline.slices)
    if (slice.category != kCycle)
      out.push_back({.lane = slice.track,
                     .category = category_index(slice.category),
                     .name = slice.name,
                     .details = details_of(slice),
                     .start = slice.start,
                     .end = slice.end});
  std::ranges::stable_sort(out, [](const Piece& a, const Piece& b) {
    return a.lane != b.lane ? a.lane < b.lane : a.start < b.start;
  });
  return out;
}

/// Joins neighbours of one lane and category that take at most `longest` together.
std::vector<Piece> joined(const std::vector<Piece>& pieces, Time longest) {
  std::vector<Piece> out;
  for (const Piece& piece : pieces) {
    if (out.empty() || out.back().lane != piece.lane || out.back().category != piece.category ||
        std::max(out.back().end, piece.end) - out.back().start > longest) {
      out.push_back(piece);
      continue;
    }
    out.back().end = std::max(out.back().end, piece.end);
    out.back().tasks += piece.tasks;
  }
  return out;
}

std::int64_t nanoseconds(Time time) {
  constexpr std::int64_t kPicosecondsPerNanosecond = 1000;
  return (time.count() + kPicosecondsPerNanosecond / 2) / kPicosecondsPerNanosecond;
}

std::string text_of(const Piece& piece) {
  if (piece.tasks > 1) return fmt::format("{} tasks from {} on", piece.tasks, piece.name);
  return piece.details.empty() ? piece.name : fmt::format("{}: {}", piece.name, piece.details);
}

}  // namespace

std::size_t Texts::index(const std::string& text) {
  const auto [at, is_new] = known_.emplace(text, all_.size());
  if (is_new) all_.push_back(core::printable(text));
  return at->second;
}

std::vector<sim::Span> idle_times(const scenarios::WorkerTimeline& timeline) {
  std::vector<sim::Span> computing;
  for (const core::Slice& slice : timeline.slices)
    if (is_compute(timeline, slice)) computing.push_back({slice.start, slice.end});
  std::ranges::sort(computing, {}, &sim::Span::start);
  std::vector<sim::Span> out;
  Time end = computing.empty() ? Time::zero() : computing.front().start;
  for (const sim::Span& span : computing) {
    if (span.start > end) out.push_back({end, span.start});
    end = std::max(end, span.end);
  }
  // The last iteration may end with communication, after the last task.
  if (!timeline.marks.empty() && timeline.marks.back() > end) out.push_back({end, timeline.marks.back()});
  return out;
}

ordered_json compact(const scenarios::WorkerTimeline& timeline, std::optional<Time> longest, Texts& texts) {
  const std::vector<Piece> all = pieces_of(timeline);
  const std::vector<Piece> kept = longest ? joined(all, *longest) : all;
  ordered_json slices = ordered_json::array();
  for (const Piece& piece : kept)
    for (const std::int64_t number :
         {static_cast<std::int64_t>(piece.lane), static_cast<std::int64_t>(piece.category),
          static_cast<std::int64_t>(texts.index(text_of(piece))), nanoseconds(piece.start),
          nanoseconds(piece.end) - nanoseconds(piece.start)})
      slices.push_back(number);
  ordered_json idle = ordered_json::array();
  for (const sim::Span& span : timeline.waits ? *timeline.waits : idle_times(timeline)) {
    idle.push_back(nanoseconds(span.start));
    idle.push_back(nanoseconds(span.end) - nanoseconds(span.start));
  }
  ordered_json marks = ordered_json::array();
  for (const Time mark : timeline.marks) marks.push_back(nanoseconds(mark));
  ordered_json lanes = ordered_json::array();
  for (const core::Track& track : timeline.tracks) lanes.push_back(track.thread);
  ordered_json out = {{"schedule", timeline.schedule},
                      {"process", timeline.process},
                      {"marks", std::move(marks)},
                      {"lanes", std::move(lanes)},
                      {"slices", std::move(slices)},
                      {"idle", std::move(idle)},
                      {"joined_us", kept.size() < all.size() ? sim::to_us(*longest) : -1.0}};
  if (timeline.stage) out["stage"] = *timeline.stage;
  return out;
}

}  // namespace report
