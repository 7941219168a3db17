#include "profiler/traces/kineto/gzip_stream.hpp"

#include <zlib.h>

#include <algorithm>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/files.hpp"

namespace kineto {
namespace {

constexpr std::int64_t kMebi = std::int64_t{1} << 20U;
constexpr std::int64_t kMaxToken = 16 * kMebi;
constexpr std::int64_t kMaxText = 16 * 1024 * kMebi;
constexpr std::int64_t kMaxRatio = 200;
constexpr std::int64_t kAnyRatio = 256 * kMebi;  // a short text may be compressed as it likes

core::Descriptor opened(const std::string& path) {
  try {
    return core::open_input(path);
  } catch (const core::ReadError& error) {
    throw core::InputError(
        fmt::format("{}: /: expected a file that can be read, got: {}", core::one_line(path), error.what()));
  }
}

}  // namespace

GzipStream::GzipStream(const std::string& path, bool repairs) : path_(path), repairs_(repairs) {
  core::Descriptor in = opened(path);
  file_ = gzdopen(in.get(), "rb");
  if (file_ == nullptr) throw core::EnvironmentError("out of memory for decompression");
  (void)in.release();  // gzclose() closes it
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
  before_ = position();
  setg(buffer_.data(), buffer_.data(), buffer_.data());
  int size = is_cut_off_ ? 0
                         : gzread(file_, buffer_.data(),
                                  static_cast<unsigned>(buffer_.size() - JsonRepair::kMaxMore));
  for (std::size_t more = 0; repairs_ && size > 0 && more < JsonRepair::kMaxMore; ++more) {
    if (!JsonRepair::more_needed(buffer_.data(), buffer_.data() + size)) break;
    const int next = gzgetc(file_);
    if (next < 0) break;
    buffer_[static_cast<std::size_t>(size++)] = static_cast<char>(next);
  }
  int status = Z_OK;
  const char* const problem = gzerror(file_, &status);
  if (repairs_ && status == Z_BUF_ERROR) {
    is_cut_off_ = true;
    size = std::max(0, size);
    status = Z_OK;
  }
  if (size < 0 || (status != Z_OK && status != Z_STREAM_END))
    refuse("gzip data to the end", fmt::format("a file that is damaged or cut off ({})",
                                               status == Z_BUF_ERROR ? "unexpected end" : problem));
  at_end_ = size == 0;
  setg(buffer_.data(), buffer_.data(), buffer_.data() + size);
  check_size();
  check_text();
  if (repairs_) repair_.repair(gptr(), egptr());
  return size == 0 ? traits_type::eof() : traits_type::to_int_type(buffer_[0]);
}

void GzipStream::check_size() const {
  if (before_ - token_begin_ > kMaxToken)
    refuse(fmt::format("a text, a number or blanks of at most {} MiB", kMaxToken / kMebi), "more");
  if (before_ > kMaxText) refuse(fmt::format("a trace of at most {} GiB", kMaxText / kMebi / 1024), "more");
  const std::int64_t read = gzoffset(file_);  // -1 for a pipe
  if (before_ > kAnyRatio && read >= 0 && before_ / kMaxRatio > read)
    refuse(fmt::format("a trace that is compressed to 1/{} or more", kMaxRatio), "less");
}

/// The parser takes a NUL for the end of the text.
void GzipStream::check_text() const {
  char* const nul = std::find(gptr(), egptr(), '\0');
  if (nul != egptr())
    throw core::InputError(fmt::format("{}:{}: expected JSON, got a NUL character", core::one_line(path_),
                                       lines_ + std::count(eback(), nul, '\n') + 1));
}

void GzipStream::refuse(std::string_view what, std::string_view got) const {
  throw core::InputError(fmt::format("{}:{}: expected {}, got {}", core::one_line(path_), line(), what, got));
}

}  // namespace kineto
