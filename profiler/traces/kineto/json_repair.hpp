// Repairs text that is nearly JSON, as profilers write it.

#pragma once

#include <cstddef>
#include <cstdint>

namespace kineto {

/// Puts empty texts in the place of numbers that are none (NaN, inf), and question marks in that of escapes
/// that JSON does not have and of bytes that are not UTF-8. The length stays the same.
class JsonRepair {
 public:
  /// The most bytes that more_needed() asks for, one after the other.
  static constexpr std::size_t kMaxMore = 4;

  /// Whether the next byte decides what the last ones are.
  static bool more_needed(const char* first, const char* last);
  /// Repairs what follows the text of the call before.
  void repair(char* first, char* last);
  std::int64_t count() const { return count_; }

 private:
  char* repair_text(char* at, const char* last);
  char* repair_outside(char* at, const char* last);

  std::int64_t count_ = 0;
  bool in_text_ = false;
  bool is_escaped_ = false;  ///< the next character, by a backslash in front of it
  bool in_word_ = false;
  std::int64_t letters_ = 0;  ///< of a number that is none, so far
};

}  // namespace kineto
