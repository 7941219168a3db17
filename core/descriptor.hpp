// A file descriptor that closes itself.

#pragma once

#include <unistd.h>

#include <utility>

namespace core {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  /// The caller closes what this returns.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace core
