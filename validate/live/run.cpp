#include "validate/live/run.hpp"

namespace live {
namespace {

using Kind = planner::TaskLabel::Kind;

}  // namespace

std::vector<planner::Transfer> transfers_of(const RunSpec& spec) {
  const planner::Schedule& schedule = spec.schedule;
  std::vector<planner::Transfer> out = {
      {.all_reduce = schedule.all_reduce.value_or(spec.all_reduce), .compressor = schedule.compressor}};
  for (const planner::TransferChoice& choice : schedule.fusion.choices)
    out.push_back(planner::chosen(out.front(), choice));
  return out;
}

bool Piece::is_collective() const { return planner::TaskLabel::collective(kind).has_value(); }

double Iteration::total_us(Kind kind) const {
  double us = 0;
  for (const Piece& piece : pieces)
    if (piece.kind == kind) us += piece.end_us - piece.start_us;
  return us;
}

double Iteration::forward_us() const { return total_us(Kind::forward) + total_us(Kind::micro_batch_forward); }

double Iteration::backward_us() const {
  return total_us(Kind::backward) + total_us(Kind::micro_batch_backward);
}

double Iteration::code_us() const {
  return total_us(Kind::encode) + total_us(Kind::decode) + total_us(Kind::update) +
         total_us(Kind::group_update) + total_us(Kind::read);
}

}  // namespace live
