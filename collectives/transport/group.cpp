#include "collectives/transport/group.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace transport {
namespace {

std::uint32_t place_of(std::uint32_t rank, const std::vector<std::uint32_t>& members) {
  const auto found = std::ranges::find(members, rank);
  if (found == members.end()) throw std::invalid_argument(fmt::format("rank {} is not of the group", rank));
  return static_cast<std::uint32_t>(found - members.begin());
}

void check_members(std::vector<std::uint32_t> members, std::uint32_t size) {
  std::ranges::sort(members);
  if (std::ranges::adjacent_find(members) != members.end() || members.back() >= size)
    throw std::invalid_argument(fmt::format("a group's members are different ranks below {}", size));
}

}  // namespace

Group::Group(Transport& all, std::vector<std::uint32_t> members)
    : all_(all), members_(std::move(members)), rank_(place_of(all.rank(), members_)) {
  check_members(members_, all.size());
}

void Group::send(std::uint32_t to, std::uint32_t tag, Bytes message) {
  all_.send(member(to), tag, std::move(message));
}

Bytes Group::receive(std::uint32_t from, std::uint32_t tag, std::size_t max_bytes) {
  return all_.recv(member(from), tag, max_bytes);
}

std::uint32_t Group::member(std::uint32_t rank) const {
  if (rank >= members_.size())
    throw std::invalid_argument(fmt::format("rank {} of a group of {}", rank, members_.size()));
  return members_[rank];
}

}  // namespace transport
