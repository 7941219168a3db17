// The two ways in which a run fails that are not our own mistakes.

#pragma once

#include <stdexcept>

namespace core {

/// What the user gave is wrong. what() is the whole line shown to them; the program exits with 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The world failed: a file that cannot be written, a disk that is full. The program exits with 1.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace core
