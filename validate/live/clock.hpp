// Whether workers can compare what their clocks say.

#pragma once

#include "transport/transport.hpp"

namespace live {

/// Whether all ranks are on one host, whose processes share a steady clock. All call it, and all get the
/// same.
bool share_clock(transport::Transport& transport);

}  // namespace live
