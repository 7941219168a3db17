// A process as a descriptor: it becomes readable when the process has ended, and never refers to another
// process.

#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "collectives/transport/tcp/descriptor.hpp"

namespace transport {

/// Returns no descriptor if there is no such process. (The function of glibc 2.36 cannot be called from C++.)
inline Descriptor open_process(pid_t pid) {
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
}

}  // namespace transport
