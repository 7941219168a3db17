// The formats that import.cpp lists, one file of this folder each.

#pragma once

#include <string_view>
#include <vector>

#include "profiler/traces/importers/log.hpp"

namespace traces::importers {

bool is_b_caffe(std::string_view text, std::string_view path);
core::Profile import_b_caffe(const std::vector<LogFile>& logs, const ImportOptions& options);

/// The log's all-reduces, as they took under the job's own load: the median of each size.
std::vector<Series> read_b_caffe_all_reduces(const LogFile& log, const ImportOptions& options);

bool is_csv(std::string_view text, std::string_view path);
std::vector<Series> read_csv_series(const LogFile& log, const ImportOptions& options);

bool is_espresso(std::string_view text, std::string_view path);
core::Profile import_espresso(const std::vector<LogFile>& logs, const ImportOptions& options);

bool is_nccl_inspector(std::string_view text, std::string_view path);
std::vector<Series> read_nccl_inspector(const std::vector<LogFile>& logs, const ImportOptions& options);

bool is_nccl_table(std::string_view text, std::string_view path);
std::vector<Series> read_nccl_table(const LogFile& log, const ImportOptions& options);

bool is_nccl_tests(std::string_view text, std::string_view path);
std::vector<Series> read_nccl_tests(const LogFile& log, const ImportOptions& options);

bool is_osu(std::string_view text, std::string_view path);
std::vector<Series> read_osu(const LogFile& log, const ImportOptions& options);

bool is_triosim(std::string_view text, std::string_view path);
core::Profile import_triosim(const std::vector<LogFile>& logs, const ImportOptions& options);

bool is_vtrain(std::string_view text, std::string_view path);
std::vector<Series> read_vtrain(const LogFile& log, const ImportOptions& options);

}  // namespace traces::importers
