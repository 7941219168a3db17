// The formats that import.cpp lists, one file of this folder each.

#pragma once

#include <string_view>
#include <vector>

#include "traces/import.hpp"

namespace traces::importers {

bool is_b_caffe(std::string_view text, std::string_view path);
Imported import_b_caffe(const std::vector<LogFile>& logs, const ImportOptions& options);

bool is_espresso(std::string_view text, std::string_view path);
Imported import_espresso(const std::vector<LogFile>& logs, const ImportOptions& options);

bool is_osu(std::string_view text, std::string_view path);
Imported import_osu(const std::vector<LogFile>& logs, const ImportOptions& options);

bool is_triosim(std::string_view text, std::string_view path);
Imported import_triosim(const std::vector<LogFile>& logs, const ImportOptions& options);

bool is_vtrain(std::string_view text, std::string_view path);
Imported import_vtrain(const std::vector<LogFile>& logs, const ImportOptions& options);

}  // namespace traces::importers
