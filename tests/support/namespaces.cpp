#include "tests/support/namespaces.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <stdexcept>

#include "core/errors.hpp"
#include "validate/netlab/lab.hpp"

namespace support {

std::string no_namespaces() {
  static const std::string why = [] {
    try {
      const netlab::ScopedLab loan({.workers = 2, .bits_per_second = 1e9});
      return std::string();
    } catch (const core::EnvironmentError& error) {
      return std::string(error.what());
    }
  }();
  return why;
}

void forbid_namespaces() {
  std::array<sock_filter, 4> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program = {.len = filter.size(), .filter = filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    throw std::runtime_error("the kernel takes no filter of system calls");
}

}  // namespace support
