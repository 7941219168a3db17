// The journal of a sweep: a line for each finished point, so that a sweep that was killed can go on.

#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "planner/sweep/point.hpp"

namespace sweep {

struct Finished {
  std::size_t point = 0;
  Record record;
  bool operator==(const Finished&) const = default;
};

/// What a journal is of: rows of other inputs must not be mixed.
struct Identity {
  Inputs inputs;
  std::size_t points = 0;
};

/// The first line of a journal, with its newline.
std::string journal_header(const Identity& identity);

/// The line that says that a point is finished, with its newline. `nth`: it is the how manieth line of the
/// journal, over all runs, from 1.
std::string journal_line(const Identity& identity, std::size_t nth, const Finished& finished);

struct Recovered {
  std::vector<Finished> finished;  ///< in the order in which they finished
  std::size_t bytes = 0;           ///< of the journal up to the first line that is torn or not one of its own
};

/// Reads what is good of a journal. Throws InputError, beginning with `source`, where the journal is of
/// another sweep, or is none.
Recovered recover(std::string_view text, const Identity& identity, std::string_view source);

/// A journal on disk, locked while this lives. A line is in the file when add() returns, so that a killed
/// process loses no finished point; it is on the disk about a second later.
class Journal {
 public:
  /// Goes on with the journal that is there, or begins one. Throws InputError where there is one with
  /// finished points and `resume` is false, or it is of another sweep; EnvironmentError where it cannot be
  /// written or another process is at it.
  Journal(std::filesystem::path file, Identity identity, bool resume);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  const std::filesystem::path& file() const { return file_; }
  /// What earlier runs finished.
  const std::vector<Finished>& earlier() const { return earlier_; }
  /// Finished points over all runs.
  std::size_t lines() const { return lines_; }

  void add(const Finished& finished);
  /// When the output is written it has served.
  void remove();

 private:
  [[noreturn]] void cannot(std::string_view what) const;
  void take_over(bool resume);
  void write(std::string_view text);

  std::filesystem::path file_;
  Identity identity_;
  int fd_ = -1;
  std::vector<Finished> earlier_;
  std::size_t lines_ = 0;
  std::chrono::steady_clock::time_point synced_ = std::chrono::steady_clock::now();
};

}  // namespace sweep
