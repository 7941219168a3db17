#include "collectives/transport/counted.hpp"

namespace transport {

Counts& operator+=(Counts& sum, const Counts& counts) {
  sum.messages_sent += counts.messages_sent;
  sum.bytes_sent += counts.bytes_sent;
  sum.messages_received += counts.messages_received;
  sum.bytes_received += counts.bytes_received;
  return sum;
}

void Counted::send(std::uint32_t to, std::uint32_t tag, Bytes message) {
  const auto bytes = static_cast<std::int64_t>(message.size());
  inner_.send(to, tag, std::move(message));
  phases_[current_] += {.messages_sent = 1, .bytes_sent = bytes};
}

Bytes Counted::receive(std::uint32_t from, std::uint32_t tag, std::size_t max_bytes) {
  Bytes message = inner_.recv(from, tag, max_bytes);
  phases_[current_] += {.messages_received = 1, .bytes_received = static_cast<std::int64_t>(message.size())};
  return message;
}

void Counted::enter_phase(std::string_view name) {
  inner_.enter_phase(name);
  if (!current_.empty()) current_ += '/';
  current_ += name;
}

void Counted::leave_phase() {
  const std::size_t slash = current_.rfind('/');
  current_.resize(slash == std::string::npos ? 0 : slash);
  inner_.leave_phase();
}

Counts Counted::phase(std::string_view name) const {
  const auto found = phases_.find(name);
  return found == phases_.end() ? Counts{} : found->second;
}

Counts Counted::total() const {
  Counts sum;
  for (const auto& [name, counts] : phases_) sum += counts;
  return sum;
}

}  // namespace transport
