// User-facing errors: invalid input (exit 2), environment failure (exit 1), and what is not supported, which
// becomes invalid input where the file is known.

#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace core {

/// Thrown for invalid user input. what() is the whole line shown to the user; the program exits with 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown when the environment fails: a file that cannot be written, a full disk. The program exits with 1.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What is asked for has no cost, cannot be simulated or does not fit the clock. Thrown where no file is
/// known; whoever knows the scenario makes an InputError of it.
class Unsupported : public std::runtime_error {
 public:
  /// The number of workers is at fault, as scenarios list it.
  static constexpr const char* kWorkers = "/workers";

  /// What would have been right, what was found instead, and the JSON pointer in the scenario of what is at
  /// fault.
  Unsupported(const std::string& expected, const std::string& got, std::string pointer = kWorkers)
      : std::runtime_error("expected " + expected + ", got " + got),
        expected_(expected),
        got_(got),
        pointer_(std::move(pointer)) {}

  const std::string& expected() const { return expected_; }
  const std::string& got() const { return got_; }
  const std::string& pointer() const { return pointer_; }

 private:
  std::string expected_;
  std::string got_;
  std::string pointer_;
};

}  // namespace core
