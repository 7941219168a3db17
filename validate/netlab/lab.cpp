#include "validate/netlab/lab.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "collectives/transport/process.hpp"
#include "collectives/transport/tcp/descriptor.hpp"
#include "core/errors.hpp"
#include "validate/netlab/commands.hpp"

namespace netlab {
namespace {

using core::EnvironmentError;
using transport::Descriptor;

/// A keeper that lives is waited for: it may get few turns on the processors.
constexpr int kPatienceMs = 300'000;

[[noreturn]] void fail(const std::string& what) {
  throw EnvironmentError(fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

void write_text(const char* file, const std::string& text) {
  const Descriptor out(::open(file, O_WRONLY | O_CLOEXEC));
  if (!out || ::write(out.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail(file);
}

/// Becomes root of a new user namespace, unless this process is root already.
void become_root() {
  if (::unshare(CLONE_NEWNET) == 0) return;
  if (errno != EPERM) fail("no network namespaces");
  const uid_t user = ::geteuid();
  const gid_t group = ::getegid();
  if (::unshare(CLONE_NEWUSER) != 0) fail("not root, and no user namespaces");
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", fmt::format("0 {} 1", user));
  write_text("/proc/self/gid_map", fmt::format("0 {} 1", group));
  if (::unshare(CLONE_NEWNET) != 0) fail("no network namespaces");
}

/// Moves this process into a new network namespace.
Descriptor new_network() {
  if (::unshare(CLONE_NEWNET) != 0) fail("cannot make a network namespace");
  Descriptor network(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!network) fail("/proc/self/ns/net");
  return network;
}

/// The same on every host, and one that keeps a link busy until a packet is lost: its queue is longer than
/// what a socket sends ahead. The default of a host, BBR for example, may leave some percent of the link
/// unused.
constexpr std::string_view kCongestionControl = "reno";

/// A queue holds what all workers may have in transit. Otherwise packets are lost by chance where two workers
/// share a link, which costs a tenth of an all-reduce.
constexpr std::int64_t kInTransitBytes = 8 << 20;

std::string shaping(double bits_per_second, std::uint32_t workers, const std::string& device) {
  return fmt::format("qdisc add dev {} root handle 1: tbf rate {:.0f}bit burst {} limit {}\n", device,
                     bits_per_second, burst_bytes(bits_per_second), workers * kInTransitBytes);
}

std::string delaying(const Shape& shape, const std::string& device) {
  return fmt::format("qdisc add dev {} parent 1:1 handle 10: netem delay {:.0f}us limit 100000\n", device,
                     shape.delay_us);
}

/// Returns the switch of a worker.
std::string switch_of(const Shape& shape, std::uint32_t worker) {
  return shape.workers_per_node == 0 ? "switch" : fmt::format("node{}", worker / shape.workers_per_node);
}

/// Adds each node's switch, and its link to the switch that joins them.
void add_nodes(const Shape& shape, std::string& links, std::string& shapes) {
  if (shape.workers_per_node == 0) return;
  for (std::uint32_t node = 0; node * shape.workers_per_node < shape.workers; ++node) {
    links += fmt::format("link add name node{0} type bridge\nlink set dev node{0} up\n", node);
    links += fmt::format("link add name up{0} type veth peer name down{0}\n", node);
    links +=
        fmt::format("link set dev up{0} master node{0} up\nlink set dev down{0} master switch up\n", node);
    for (const std::string_view end : {"up", "down"})
      shapes += shaping(shape.between_bits_per_second, shape.workers, fmt::format("{}{}", end, node));
  }
}

/// Kills this process when the thread that has forked it ends. A change of rights resets it.
void die_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
}

/// Runs in the keeper. Returns descriptors of the workers' namespaces; the switch is in the keeper's own
/// namespace.
std::vector<Descriptor> make_network(const Shape& shape, pid_t parent) {
  const std::string ip = find_command("ip");
  const std::string tc = find_command("tc");
  become_root();
  die_with(parent);
  std::vector<Descriptor> workers;
  for (std::uint32_t i = 0; i < shape.workers; ++i) workers.push_back(new_network());
  const Descriptor hub = new_network();

  std::string links = "link add name switch type bridge\nlink set dev switch up\n";
  std::string shapes;
  add_nodes(shape, links, shapes);
  for (std::uint32_t i = 0; i < shape.workers; ++i) {
    links += fmt::format("link add name w{} type veth peer name eth0 netns /proc/{}/fd/{}\n", i, ::getpid(),
                         workers[i].get());
    links += fmt::format("link set dev w{} master {} up\n", i, switch_of(shape, i));
    shapes += shaping(shape.bits_per_second, shape.workers, fmt::format("w{}", i));
  }
  run_inside(hub.get(), {ip, "-batch", "-"}, links);
  run_inside(hub.get(), {tc, "-batch", "-"}, shapes);
  for (std::uint32_t i = 0; i < shape.workers; ++i) {
    run_inside(
        workers[i].get(), {ip, "-batch", "-"},
        fmt::format("link set dev lo up\naddress add {0}/24 dev eth0\nlink set dev eth0 up\n"
                    "route replace 10.77.0.0/24 dev eth0 proto kernel scope link src {0} congctl {1}\n",
                    address(i), kCongestionControl));
    run_inside(workers[i].get(), {tc, "-batch", "-"}, shaping(shape.bits_per_second, shape.workers, "eth0"));
    if (shape.delay_us > 0) {
      try {
        run_inside(workers[i].get(), {tc, "-batch", "-"}, delaying(shape, "eth0"));
      } catch (const EnvironmentError& error) {
        throw EnvironmentError(fmt::format("no delay, which needs a kernel with netem: {}", error.what()));
      }
    }
  }
  return workers;
}

void send_text(const Descriptor& socket, const std::string& text) {
  if (::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(text.size()))
    ::_exit(1);
}

/// Runs in the new process. Sends "up" and the namespaces' descriptors, or an error message, and then waits
/// to be killed. A network that outlives its builder does so only once the builder says that it is on record.
[[noreturn]] void keep(const Shape& shape, const Descriptor& builder, Lifetime lifetime, pid_t parent) {
  std::string said;
  std::vector<Descriptor> workers;
  try {
    workers = make_network(shape, parent);
    said = "up";
    for (const Descriptor& worker : workers) said += fmt::format(" {}", worker.get());
  } catch (const std::exception& error) {
    said = error.what();
  }
  send_text(builder, said + '\n');
  if (workers.empty()) ::_exit(1);
  if (lifetime == Lifetime::until_down) {
    char is_on_record = 0;
    if (::recv(builder.get(), &is_on_record, 1, 0) != 1) ::_exit(1);
    ::prctl(PR_SET_PDEATHSIG, 0);
    send_text(builder, "kept\n");
  }
  ::close(builder.get());
  for (;;) ::pause();
}

[[noreturn]] void become_keeper(const Shape& shape, const Descriptor& builder, Lifetime lifetime,
                                pid_t parent) {
  ::setsid();
  die_with(parent);
  ::prctl(PR_SET_NAME, "fusewise-netlab");
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  for (int fd = 3; fd < 1024; ++fd)  // closes inherited pipes
    if (fd != builder.get()) ::close(fd);
  keep(shape, builder, lifetime, parent);
}

/// Returns field 22 (start time) of /proc/PID/stat; 0 if there is no such process, or if it is a zombie.
std::uint64_t start_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text) || text.rfind(')') == std::string::npos) return 0;
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  std::string word;
  rest >> word;
  if (word == "Z" || word == "X") return 0;
  std::uint64_t start = 0;
  for (int field = 4; field < 22; ++field) rest >> word;
  rest >> start;
  return start;
}

/// Returns what the keeper says in a line; less if it ends.
std::string line_of(const Descriptor& keeper) {
  std::string out;
  while (!out.ends_with('\n')) {
    pollfd one = {.fd = keeper.get(), .events = POLLIN, .revents = 0};
    if (::poll(&one, 1, kPatienceMs) != 1) return "the keeper of the network does not answer";
    std::array<char, 1000> buffer{};
    const ssize_t got = ::recv(keeper.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return out;
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  out.pop_back();
  return out;
}

bool is_same_namespace(int fd, const char* own) {
  struct stat a = {};
  struct stat b = {};
  return ::fstat(fd, &a) == 0 && ::stat(own, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

}  // namespace

/// Bytes that may pass while a timer is late; below 128 kB half the rate is lost.
std::int64_t burst_bytes(double bits_per_second) {
  return static_cast<std::int64_t>(std::max(131072.0, bits_per_second / 8 * 1e-3));
}

Lab build(const Shape& shape, Lifetime lifetime, const std::function<void(const Lab&)>& record) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("socketpair");
  const Descriptor to_keeper(ends[0]);
  Descriptor to_builder(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t keeper = ::fork();
  if (keeper < 0) fail("fork");
  if (keeper == 0) become_keeper(shape, to_builder, lifetime, parent);
  to_builder.reset();
  Lab lab = {.shape = shape, .keeper = keeper, .keeper_started = start_of(keeper), .namespaces = {}};
  try {
    std::istringstream words(line_of(to_keeper));
    std::string first;
    words >> first;
    if (first != "up")
      throw EnvironmentError(fmt::format(
          "netlab: {}", words.str().empty() ? "the keeper of the network has ended" : words.str()));
    for (int fd = 0; words >> fd;) lab.namespaces.push_back(fd);
    if (lifetime == Lifetime::of_thread) return lab;
    record(lab);
    if (::send(to_keeper.get(), "!", 1, MSG_NOSIGNAL) != 1 || line_of(to_keeper) != "kept")
      throw EnvironmentError("netlab: the keeper of the network has ended");
  } catch (...) {
    remove(lab);
    throw;
  }
  return lab;
}

bool is_up(const Lab& lab) {
  return lab.keeper > 0 && lab.keeper_started != 0 && start_of(lab.keeper) == lab.keeper_started;
}

void remove(const Lab& lab) {
  if (lab.keeper <= 0) return;
  const Descriptor process = transport::open_process(lab.keeper);
  if (process && is_up(lab)) {
    ::kill(lab.keeper, SIGKILL);
    pollfd one = {.fd = process.get(), .events = POLLIN, .revents = 0};
    (void)::poll(&one, 1, kPatienceMs);
  }
  ::waitpid(lab.keeper, nullptr, WNOHANG);  // if it is our child
}

void enter(const Lab& lab, std::uint32_t worker) {
  const std::string keeper = fmt::format("/proc/{}/", lab.keeper);
  const Descriptor user(::open((keeper + "ns/user").c_str(), O_RDONLY | O_CLOEXEC));
  const Descriptor network(
      ::open(fmt::format("{}fd/{}", keeper, lab.namespaces.at(worker)).c_str(), O_RDONLY | O_CLOEXEC));
  if (!user || !network || !is_up(lab)) fail("netlab: the network is gone");
  if (!is_same_namespace(user.get(), "/proc/self/ns/user") && ::setns(user.get(), CLONE_NEWUSER) != 0)
    fail("netlab: cannot enter the user namespace");
  if (::setns(network.get(), CLONE_NEWNET) != 0) fail("netlab: cannot enter the network namespace");
}

std::string address(std::uint32_t worker) { return fmt::format("10.77.0.{}", worker + 1); }

ScopedLab::~ScopedLab() { remove(lab_); }

}  // namespace netlab
