// User-facing errors: invalid input (exit 2) and environment failure (exit 1).

#pragma once

#include <stdexcept>

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

}  // namespace core
