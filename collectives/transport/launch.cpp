#include "collectives/transport/launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sstream>
#include <system_error>

#include <fmt/format.h>

#include "collectives/transport/process.hpp"
#include "collectives/transport/tcp/sockets.hpp"

namespace transport {
namespace {

using Time = Clock::time_point;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

struct Pipe {
  Descriptor reads;
  Descriptor writes;
};

Pipe new_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe");
  return {.reads = Descriptor(ends[0]), .writes = Descriptor(ends[1])};
}

bool is_ignored(int signal) {  // by nohup, say, or a shell that put this process into the background
  struct sigaction now = {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

/// While it lives, terminating signals are read from a descriptor.
class Signals {
 public:
  Signals() {
    sigemptyset(&taken_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
      if (!is_ignored(signal)) sigaddset(&taken_, signal);
    if (::sigprocmask(SIG_BLOCK, &taken_, &before_) != 0) fail("sigprocmask");
    descriptor_ = Descriptor(::signalfd(-1, &taken_, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!descriptor_) {
      restore();
      fail("signalfd");
    }
  }
  ~Signals() { restore(); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  void restore() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int get() const { return descriptor_.get(); }
  /// Returns the pending signal; 0 if there is none.
  int take() const {
    signalfd_siginfo info = {};
    return ::read(descriptor_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                        : 0;
  }

 private:
  sigset_t taken_{};
  sigset_t before_{};
  Descriptor descriptor_;
};

struct Child {
  Descriptor process;
  Pipe out;
  Pipe err;
  std::size_t passed_on = 0;  // bytes of its standard error already forwarded
  bool has_ended = false;
};

int guarded(const std::function<int(std::uint32_t)>& rank, std::uint32_t number) {
  try {
    return rank(number);
  } catch (const std::exception& error) {
    (void)std::fprintf(stderr, "%s\n", error.what());
  } catch (...) {
    (void)std::fprintf(stderr, "unknown exception\n");
  }
  return 1;
}

class Launch {
 public:
  Launch(std::uint32_t ranks, const LaunchOptions& options)
      : options_(options), ends_(ranks), children_(ranks), limit_(Clock::now() + options.limit) {}
  ~Launch() {
    end_all(SIGKILL);
    reap();
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  void start(const std::function<int(std::uint32_t)>& rank) {
    (void)std::fflush(nullptr);
    const pid_t parent = ::getpid();
    for (std::uint32_t number = 0; number < ends_.size(); ++number) {
      Child& child = children_[number];
      child.out = new_pipe();
      child.err = new_pipe();
      const pid_t pid = ::fork();
      if (pid < 0) fail("fork");
      if (pid == 0) run_child(rank, number, parent);
      ends_[number].pid = pid;
      ::setpgid(pid, ends_[0].pid);
      child.process = open_process(pid);
      if (!child.process) fail("pidfd_open");
      child.out.writes.reset();
      child.err.writes.reset();
    }
    if (options_.on_started) options_.on_started(pids());
  }

  std::vector<RankEnd> finish() && {
    while (any_runs()) {
      wait();
      if (const int signal = signals_.take()) end_ourselves(signal);
      const Time now = Clock::now();
      if (now >= limit_) {
        end_all(SIGKILL);
        limit_ = Time::max();
      }
    }
    for (std::uint32_t rank = 0; rank < ends_.size(); ++rank) read_all_of(rank);
    return std::move(ends_);
  }

 private:
  /// Runs in the new process.
  [[noreturn]] void run_child(const std::function<int(std::uint32_t)>& rank, std::uint32_t number,
                              pid_t parent) {
    ::setpgid(0, number == 0 ? 0 : ends_[0].pid);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);  // the parent has died before
    signals_.restore();
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const bool redirected = ::dup2(nothing, STDIN_FILENO) >= 0 &&
                            ::dup2(children_[number].out.writes.get(), STDOUT_FILENO) >= 0 &&
                            ::dup2(children_[number].err.writes.get(), STDERR_FILENO) >= 0;
    if (!redirected) ::_exit(126);
    const int code = guarded(rank, number);
    (void)std::fflush(nullptr);
    ::_exit(code);
  }

  std::vector<pid_t> pids() const {
    std::vector<pid_t> out;
    out.reserve(ends_.size());
    for (const RankEnd& end : ends_) out.push_back(end.pid);
    return out;
  }

  bool any_runs() const {
    return std::ranges::any_of(children_, [](const Child& c) { return !c.has_ended; });
  }

  void wait() {
    std::vector<pollfd> polled = {{.fd = signals_.get(), .events = POLLIN, .revents = 0}};
    for (const Child& child : children_) {
      polled.push_back({.fd = child.has_ended ? -1 : child.process.get(), .events = POLLIN, .revents = 0});
      polled.push_back({.fd = child.out.reads.get(), .events = POLLIN, .revents = 0});
      polled.push_back({.fd = child.err.reads.get(), .events = POLLIN, .revents = 0});
    }
    const auto left = limit_ == Time::max()
                          ? std::int64_t{1000}
                          : std::chrono::ceil<std::chrono::milliseconds>(limit_ - Clock::now()).count();
    if (::poll(polled.data(), polled.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000))) <= 0)
      return;
    for (std::uint32_t rank = 0; rank < children_.size(); ++rank) {
      const std::size_t at = 1 + 3 * std::size_t{rank};
      Child& child = children_[rank];
      if (polled[at + 1].revents != 0) read_some(child.out.reads, ends_[rank].out);
      if (polled[at + 2].revents != 0) {
        read_some(child.err.reads, ends_[rank].err);
        pass_lines_on(rank, false);
      }
      if (polled[at].revents != 0) collect(rank);
    }
  }

  static void read_some(Descriptor& from, std::string& into) {
    std::array<char, 65536> buffer{};
    const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
    if (got > 0)
      into.append(buffer.data(), static_cast<std::size_t>(got));
    else if (got == 0 || errno != EINTR)
      from.reset();
  }

  /// Reads what is in the pipes when the rank has ended; not what a process that it left behind may still
  /// write.
  void read_all_of(std::uint32_t rank) {
    for (const auto& [from, into] : {std::pair(&children_[rank].out.reads, &ends_[rank].out),
                                     std::pair(&children_[rank].err.reads, &ends_[rank].err)}) {
      pollfd one = {.fd = from->get(), .events = POLLIN, .revents = 0};
      while (*from && ::poll(&one, 1, 0) > 0) read_some(*from, *into);
    }
    pass_lines_on(rank, true);
  }

  void pass_lines_on(std::uint32_t rank, bool is_all) {
    if (!options_.on_line) return;
    const std::string& err = ends_[rank].err;
    std::size_t& at = children_[rank].passed_on;
    for (std::size_t end = err.find('\n', at); end != std::string::npos; end = err.find('\n', at)) {
      options_.on_line(rank, std::string_view(err).substr(at, end - at));
      at = end + 1;
    }
    if (is_all && at < err.size()) options_.on_line(rank, std::string_view(err).substr(at));
    if (is_all) at = err.size();
  }

  void collect(std::uint32_t rank) {
    int status = 0;
    if (::waitpid(ends_[rank].pid, &status, 0) != ends_[rank].pid) return;
    children_[rank].has_ended = true;
    if (WIFEXITED(status)) ends_[rank].exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) ends_[rank].signal = WTERMSIG(status);
    if (!ends_[rank].is_good() && limit_ != Time::max())
      limit_ = std::min(limit_, Clock::now() + options_.grace);
  }

  /// Signals every rank that has not ended. Its process id cannot belong to another process yet.
  void end_all(int signal) {
    for (std::uint32_t rank = 0; rank < children_.size(); ++rank)
      if (!children_[rank].has_ended && ends_[rank].pid > 0) {
        ends_[rank].was_ended = true;
        ::kill(ends_[rank].pid, signal);
        ::kill(ends_[rank].pid, SIGCONT);  // continues a stopped rank
      }
  }

  void reap() {
    for (std::uint32_t rank = 0; rank < children_.size(); ++rank)
      if (!children_[rank].has_ended && ends_[rank].pid > 0) {
        ::waitpid(ends_[rank].pid, nullptr, 0);
        children_[rank].has_ended = true;
      }
  }

  void end_ourselves(int signal) {
    end_all(SIGKILL);
    reap();
    signals_.restore();
    ::raise(signal);
    throw std::system_error(EINTR, std::generic_category(), "signal");  // the caller handles it
  }

  const LaunchOptions& options_;
  std::vector<RankEnd> ends_;
  std::vector<Child> children_;
  Time limit_;
  Signals signals_;
};

std::string how(const RankEnd& end) {
  if (end.exit_code > 0) {
    const std::string_view said = last_line(end.err);
    return said.empty() ? fmt::format("ended with exit code {}", end.exit_code) : std::string(said);
  }
  if (end.was_ended) return "did not end by itself";
  return fmt::format("was killed by signal {} ({})", end.signal, ::strsignal(end.signal));
}

}  // namespace

std::vector<RankEnd> launch(std::uint32_t ranks, const std::function<int(std::uint32_t)>& rank,
                            const LaunchOptions& options) {
  Launch all(ranks, options);
  all.start(rank);
  return std::move(all).finish();
}

std::string_view last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text.substr(text.rfind('\n') + 1);
}

std::vector<std::string> warnings(const std::vector<RankEnd>& ends) {
  std::vector<std::string> out;
  for (const RankEnd& end : ends) {
    std::istringstream lines(end.err);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(kWarning)) out.push_back(line.substr(kWarning.size()));
  }
  return out;
}

std::string failures(const std::vector<RankEnd>& ends) {
  std::string out;
  for (std::size_t rank = 0; rank < ends.size(); ++rank)
    if (!ends[rank].is_good())
      out += fmt::format("{}rank {} (pid {}) {}", out.empty() ? "" : "; ", rank, ends[rank].pid,
                         ends[rank].exit_code > 0 && !last_line(ends[rank].err).empty()
                             ? "said: " + how(ends[rank])
                             : how(ends[rank]));
  for (const std::string& warning : warnings(ends))
    if (!out.empty()) out += "; " + warning;
  return out;
}

}  // namespace transport
