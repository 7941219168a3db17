#include "validate/live/names.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace live {
namespace {

using Kind = planner::TaskLabel::Kind;

std::string_view words(Kind kind) {
  switch (kind) {
    case Kind::read: return "read input";
    case Kind::forward: return "forward";
    case Kind::backward: return "backward";
    case Kind::micro_batch_forward: return "forward of micro-batch";
    case Kind::micro_batch_backward: return "backward of micro-batch";
    case Kind::tick: return "tick";
    case Kind::encode: return "encode";
    case Kind::decode: return "decode";
    case Kind::all_reduce: return "all-reduce";
    case Kind::reduce_scatter: return "reduce-scatter";
    case Kind::all_gather:
    case Kind::forward_gather: return "all-gather";
    case Kind::backward_gather: return "all-gather before backward";
    case Kind::lars: return "lars";
    case Kind::lars_gather: return "lars gather";
    case Kind::update: return "update";
    case Kind::group_update: return "update of group";
  }
  return "";
}

std::string counted(Kind kind, std::uint32_t item, std::size_t per_batch) {
  const std::string out = fmt::format("{} {}", words(kind), item % per_batch + 1);
  return item < per_batch ? out : fmt::format("{}, micro-batch {}", out, item / per_batch + 1);
}

}  // namespace

std::vector<std::string_view> task_kinds() {
  std::vector<std::string_view> out;
  for (std::uint8_t kind = 0; !words(Kind{kind}).empty(); ++kind) out.push_back(words(Kind{kind}));
  return out;
}

std::string name(const Piece& piece, const core::Profile& profile, std::size_t groups) {
  switch (piece.kind) {
    case Kind::read:
    case Kind::update:
    case Kind::lars: return std::string(words(piece.kind));
    case Kind::forward: return "forward " + profile.layers[piece.item % profile.layers.size()].name;
    case Kind::backward: return fmt::format("backward, step {}", piece.item + 1);
    case Kind::micro_batch_forward:
    case Kind::micro_batch_backward: return fmt::format("{} {}", words(piece.kind), piece.item + 1);
    default: return counted(piece.kind, piece.item, groups);
  }
}

nlohmann::ordered_json iteration_json(const Iteration& iteration) {
  nlohmann::ordered_json pieces = nlohmann::ordered_json::array();
  for (const Piece& piece : iteration.pieces)
    pieces.push_back({{"kind", words(piece.kind)},
                      {"item", piece.item},
                      {"ready_us", piece.ready_us},
                      {"start_us", piece.start_us},
                      {"end_us", piece.end_us}});
  return {{"duration_us", iteration.length_us},     {"forward_us", iteration.forward_us()},
          {"backward_us", iteration.backward_us()}, {"code_us", iteration.code_us()},
          {"exposed_us", iteration.exposed_us()},   {"tasks", std::move(pieces)}};
}

}  // namespace live
