// A file as a stream, decompressed if it is gzip; knows the current line.

#pragma once

#include <array>
#include <cstdint>
#include <streambuf>
#include <string>
#include <string_view>

#include "profiler/traces/kineto/json_repair.hpp"

struct gzFile_s;

namespace kineto {

/// Throws InputError if the file cannot be opened, is damaged or (unless it repairs) cut off, or holds a NUL
/// character; also if a token or the whole text is too large, or much larger than the file: nobody's trace is
/// compressed 200 to 1.
class GzipStream : public std::streambuf {
 public:
  /// With `repairs` what is nearly JSON becomes JSON, see JsonRepair, and compressed data that is cut off
  /// ends there.
  explicit GzipStream(const std::string& path, bool repairs = false);
  ~GzipStream() override;
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  /// Returns the line of the next character, from 1.
  std::int64_t line() const;
  std::int64_t column() const;
  bool at_end() const { return at_end_; }
  /// Returns the number of places that were repaired so far.
  std::int64_t repaired() const { return repair_.count(); }
  /// The reader calls it after every token; what comes before the next call is limited.
  void end_token() { token_begin_ = position(); }

 protected:
  int_type underflow() override;

 private:
  std::int64_t position() const { return before_ + (gptr() - eback()); }
  void check_size() const;
  void check_text() const;
  [[noreturn]] void refuse(std::string_view what, std::string_view got) const;

  std::string path_;
  gzFile_s* file_ = nullptr;
  std::array<char, 1U << 16U> buffer_{};
  std::int64_t before_ = 0;  ///< bytes before the buffer
  std::int64_t lines_ = 0;   ///< that ended before the buffer
  std::int64_t token_begin_ = 0;
  bool at_end_ = false;
  bool is_cut_off_ = false;
  bool repairs_ = false;
  JsonRepair repair_;
  std::int64_t in_line_ = 0;  ///< characters of the buffer's first line that came before it
};

}  // namespace kineto
