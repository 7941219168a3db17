// The rows that `fusewise sweep` has written, for a report, which draws them without running them again.

#pragma once

#include <string>

#include "planner/report/report.hpp"
#include "profiler/traces/importers/log.hpp"

namespace cli {

/// Whether the file holds rows, CSV or JSON lines: by its name, or by how it begins.
bool is_sweep_rows(const traces::LogFile& file);

/// Throws InputError, which names the line.
report::Report report_of_rows(const traces::LogFile& file);

}  // namespace cli
