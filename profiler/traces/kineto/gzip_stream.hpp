// A file as a stream, decompressed if it is gzip; knows the current line.

#pragma once

#include <array>
#include <cstdint>
#include <streambuf>
#include <string>

struct gzFile_s;

namespace kineto {

/// Throws InputError if the file cannot be opened, is damaged or is truncated.
class GzipStream : public std::streambuf {
 public:
  explicit GzipStream(const std::string& path);
  ~GzipStream() override;
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  /// Returns the line of the next character, from 1.
  std::int64_t line() const;
  std::int64_t column() const;
  bool at_end() const { return at_end_; }

 protected:
  int_type underflow() override;

 private:
  std::string path_;
  gzFile_s* file_ = nullptr;
  std::array<char, 1U << 16U> buffer_{};
  std::int64_t lines_ = 0;  ///< that ended before the buffer
  bool at_end_ = false;
  std::int64_t in_line_ = 0;  ///< characters of the buffer's first line that came before it
};

}  // namespace kineto
