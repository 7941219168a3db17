#include "validate/live/clock.hpp"

#include <thread>

#include "collectives/transport/bytes.hpp"
#include "profiler/common/noise.hpp"
#include "profiler/measure/run.hpp"
#include "validate/live/fusion_buffer.hpp"

namespace live {

bool share_clock(transport::Transport& transport) {
  return measure::share_clock(transport, tag_of(Tag::clock));
}

std::chrono::steady_clock::time_point common_start(transport::Transport& transport, bool shares_clock) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kNotice(3);
  std::int64_t at_ns = 0;
  if (transport.rank() == 0) {
    at_ns = std::chrono::nanoseconds((Clock::now() + kNotice).time_since_epoch()).count();
    for (std::uint32_t rank = 1; rank < transport.size(); ++rank)
      transport.send(rank, tag_of(Tag::start), transport::to_bytes(std::span<const std::int64_t>(&at_ns, 1)));
  } else {
    transport::recv_into<std::int64_t>(transport, 0, tag_of(Tag::start), std::span(&at_ns, 1));
  }
  return shares_clock ? Clock::time_point(std::chrono::nanoseconds(at_ns)) : Clock::now() + kNotice;
}

double loop_at_rest_us() {
  constexpr std::chrono::milliseconds kRest(1);
  std::this_thread::sleep_for(kRest);
  return profiler::time_fixed_loop_us();
}

}  // namespace live
