// A ring all-reduce in SimGrid (S4U), message by message, for bench/peers/compare.py: each rank has an actor
// and a link of its own to the next rank. Arguments: ranks, bytes of a message, latency in seconds, bytes per
// second. Prints the simulated seconds.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace s4u = simgrid::s4u;

namespace {

void rank_of_ring(std::size_t rank, std::size_t ranks, std::uint64_t bytes) {
  static int payload = 0;
  s4u::Mailbox* const own = s4u::Mailbox::by_name(std::to_string(rank));
  s4u::Mailbox* const next = s4u::Mailbox::by_name(std::to_string((rank + 1) % ranks));
  for (std::size_t round = 0; round < 2 * (ranks - 1); ++round) {
    const s4u::CommPtr sent = next->put_async(&payload, bytes);
    own->get<int>();
    sent->wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);
  if (argc != 5) return 2;
  const std::size_t ranks = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t bytes = std::strtoull(argv[2], nullptr, 10);
  // A message takes latency + bytes / bandwidth, as in fusewise.
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/latency-factor:1");
  s4u::Engine::set_config("network/bandwidth-factor:1");
  s4u::Engine::set_config("network/TCP-gamma:0");
  s4u::Engine::set_config("network/crosstraffic:0");
  s4u::NetZone* const zone = s4u::create_full_zone("ring");
  std::vector<s4u::Host*> hosts;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    hosts.push_back(zone->create_host("host" + std::to_string(rank), 1e9)->seal());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    s4u::Link* const link = zone->create_link("link" + std::to_string(rank), std::strtod(argv[4], nullptr))
                                ->set_latency(std::strtod(argv[3], nullptr))
                                ->seal();
    zone->add_route(hosts[rank]->get_netpoint(), hosts[(rank + 1) % ranks]->get_netpoint(), nullptr, nullptr,
                    {s4u::LinkInRoute(link)}, false);
  }
  zone->seal();
  for (std::size_t rank = 0; rank < ranks; ++rank)
    s4u::Actor::create("rank" + std::to_string(rank), hosts[rank], rank_of_ring, rank, ranks, bytes);
  engine.run();
  std::printf("%.12f\n", s4u::Engine::get_clock());
  return 0;
}
