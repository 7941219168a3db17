// The journal of a sweep: one line per finished point, so that an interrupted sweep can resume.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
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

/// The inputs of a sweep: a journal accepts no rows from other inputs.
struct Identity {
  Inputs inputs;
  std::size_t points = 0;
};

/// The first line of a journal, with its newline.
std::string journal_header(const Identity& identity);

/// The line that records a finished point, with its newline. `nth`: the number of the line in the journal,
/// over all runs, from 1.
std::string journal_line(const Identity& identity, std::size_t nth, const Finished& finished);

struct Recovered {
  std::vector<Finished> finished;  ///< in the order in which they finished
  std::size_t bytes = 0;           ///< length of the valid prefix: up to the first line that is incomplete or
                                   ///< malformed
};

/// Parses the valid prefix of a journal. Throws InputError, prefixed with `source`, if the text is not a
/// journal or belongs to another sweep.
Recovered recover(std::string_view text, const Identity& identity, std::string_view source);

/// A journal file, locked during the object's lifetime. add() returns when the lines are in the file, so a
/// process that is killed later loses none of these points; they are flushed to disk within about a second.
class Journal {
 public:
  /// Resumes an existing journal or creates one. Throws InputError if the journal has finished points and
  /// `resume` is false, or belongs to another sweep; throws EnvironmentError if it cannot be written or
  /// another process holds the lock.
  Journal(std::filesystem::path file, Identity identity, bool resume);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal();

  const std::filesystem::path& file() const { return file_; }
  /// The points that earlier runs finished.
  const std::vector<Finished>& earlier() const { return earlier_; }
  /// The number of finished points over all runs.
  std::size_t lines() const { return lines_; }

  void add(std::span<const Finished> finished);
  /// Deletes the journal after the output is written.
  void remove();

 private:
  [[noreturn]] void cannot(std::string_view what) const;
  void take_over(bool resume);
  void write(std::string_view text);

  std::filesystem::path file_;
  Identity identity_;
  std::uint64_t header_hash_ = 0;  // covered by the checksum of every line
  int fd_ = -1;
  std::vector<Finished> earlier_;
  std::size_t lines_ = 0;
  std::chrono::steady_clock::time_point synced_ = std::chrono::steady_clock::now();
};

}  // namespace sweep
