// A file as a stream, unpacked on the way where it is gzip; knows the line it has come to.

#pragma once

#include <array>
#include <cstdint>
#include <streambuf>
#include <string>

struct gzFile_s;

namespace kineto {

/// Throws InputError where the file cannot be opened, and where it is damaged or cut off.
class GzipStream : public std::streambuf {
 public:
  explicit GzipStream(const std::string& path);
  ~GzipStream() override;
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  /// Of the character that would be read next, from 1.
  std::int64_t line() const;
  std::int64_t column() const;
  bool at_end() const { return at_end_; }

 protected:
  int_type underflow() override;

 private:
  std::string path_;
  gzFile_s* file_ = nullptr;
  std::array<char, 1U << 16U> buffer_{};
  std::int64_t lines_ = 0;  ///< ended before the buffer
  bool at_end_ = false;
  std::int64_t in_line_ = 0;  ///< characters of the buffer's first line before it
};

}  // namespace kineto
