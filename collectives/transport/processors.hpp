// Which processors a worker runs on, where workers are processes of one host.

#pragma once

#include <cstdint>

namespace transport {

/// The calling process, before it has threads, keeps to its share of the processors that it may run on: with
/// fewer processors than workers to one of them, else to as many as the others have. By the scheduler's
/// chance a thread that computes would share its processor with threads that serve the network for seconds,
/// and take up to twice as long, or not share it at all. Where the system refuses nothing changes.
void keep_to_share(std::uint32_t worker, std::uint32_t workers);

}  // namespace transport
