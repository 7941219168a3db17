#include "profiler/traces/kineto/gzip_stream.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"

namespace kineto {
namespace {

std::string shown(const std::string& path) { return core::one_line(path); }

}  // namespace

GzipStream::GzipStream(const std::string& path) : path_(path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    errno = EISDIR;
  else
    file_ = gzopen(path.c_str(), "rb");
  if (file_ == nullptr)
    throw core::InputError(fmt::format("{}: /: expected a file that can be read, got: {}", shown(path),
                                       std::generic_category().message(errno)));
  setg(buffer_.data(), buffer_.data(), buffer_.data());
}

GzipStream::~GzipStream() { gzclose(file_); }

std::int64_t GzipStream::line() const { return lines_ + std::count(eback(), gptr(), '\n') + 1; }

std::int64_t GzipStream::column() const {
  const char* start = gptr();
  while (start != eback() && *(start - 1) != '\n') --start;
  return gptr() - start + (start == eback() ? in_line_ : 0) + 1;
}

GzipStream::int_type GzipStream::underflow() {
  const std::int64_t column_before = column() - 1;
  lines_ = line() - 1;
  in_line_ = column_before;
  const int size = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
  int status = Z_OK;
  const char* const problem = gzerror(file_, &status);
  if (size < 0 || (status != Z_OK && status != Z_STREAM_END))
    throw core::InputError(
        fmt::format("{}: expected gzip data to the end, got a file that is damaged or cut off ({})",
                    shown(path_), status == Z_BUF_ERROR ? "unexpected end" : problem));
  at_end_ = size == 0;
  setg(buffer_.data(), buffer_.data(), buffer_.data() + size);
  return size == 0 ? traits_type::eof() : traits_type::to_int_type(buffer_[0]);
}

}  // namespace kineto
