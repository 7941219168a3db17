#include "profiler/traces/ranks/read_nsys.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/errors.hpp"
#include "core/field.hpp"
#include "core/files.hpp"
#include "core/json.hpp"
#include "core/limits.hpp"
#include "profiler/traces/kineto/collective_kind.hpp"
#include "profiler/traces/ranks/read_kineto.hpp"

namespace ranks {
namespace {

constexpr std::string_view kDefaultStep = "ProfilerStep#";  // of torch.profiler with emit_nvtx()

using core::InputError;

constexpr std::size_t kMaxRows = 8'000'000;
constexpr std::size_t kMaxSteps = 1'000'000;
constexpr std::size_t kMaxDevices = 4096;
constexpr std::int64_t kMaxNs = std::numeric_limits<std::int64_t>::max() / 4;

[[noreturn]] void refuse(const std::string& path, std::string_view what, std::string_view got) {
  throw InputError(
      fmt::format("{}: /: expected {}, got {}", core::one_line(path), what, core::printable(got)));
}

/// A path as SQLite's URI, which says that nobody changes the file: no journal is looked for or made.
std::string uri_of(const std::string& path) {
  std::string out = "file:";
  for (const char c : std::filesystem::absolute(path).string()) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          c == '/' || c == '.' || c == '-' || c == '_';
    if (is_plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out + "?mode=ro&immutable=1";
}

class Row {
 public:
  Row(sqlite3_stmt* statement, const std::string& path) : statement_(statement), path_(path) {}
  /// SQLite reads a text or a fraction as some integer; here they are refused. 0 where there is no value.
  std::int64_t integer(int column) const {
    const int type = sqlite3_column_type(statement_, column);
    if (type != SQLITE_INTEGER && type != SQLITE_NULL)
      refuse(path_, fmt::format("integers in the column {}", sqlite3_column_name(statement_, column)),
             text(column));
    return sqlite3_column_int64(statement_, column);
  }
  bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::string text(int column) const {
    const void* const data = sqlite3_column_blob(statement_, column);
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return data == nullptr ? "" : std::string(static_cast<const char*>(data), size);
  }

 private:
  sqlite3_stmt* statement_;
  const std::string& path_;
};

class Database {
 public:
  explicit Database(const std::string& path) : path_(path) {
    try {
      (void)core::open_input(path);
    } catch (const core::ReadError& error) {
      refuse(path, "a file that can be read", error.what());
    }
    const int opened =
        sqlite3_open_v2(uri_of(path).c_str(), &database_, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
    if (opened != SQLITE_OK) {
      const std::string why = database_ == nullptr ? "no memory" : sqlite3_errmsg(database_);
      sqlite3_close(database_);
      refuse(path, "an SQLite database", why);
    }
    sqlite3_db_config(database_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(database_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_limit(database_, SQLITE_LIMIT_LENGTH, 1 << 24);
  }
  ~Database() { sqlite3_close(database_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void each(const std::string& query, const std::function<void(const Row&)>& take) const {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(database_, query.c_str(), -1, &statement, nullptr) != SQLITE_OK)
      refuse(path_, "an export of Nsight Systems", sqlite3_errmsg(database_));
    int status = SQLITE_ROW;
    std::size_t rows = 0;
    try {
      while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
        if (++rows > kMaxRows) refuse(path_, fmt::format("tables of at most {} rows", kMaxRows), "more");
        take(Row(statement, path_));
      }
    } catch (...) {
      sqlite3_finalize(statement);
      throw;
    }
    sqlite3_finalize(statement);
    if (status != SQLITE_DONE) refuse(path_, "an undamaged database", sqlite3_errmsg(database_));
  }

  /// The columns of a table; none if there is no such table. Views are not read.
  std::set<std::string> columns(const std::string& table) const {
    std::set<std::string> out;
    bool is_table = false;
    each(fmt::format("SELECT type FROM sqlite_master WHERE name = '{}'", table),
         [&](const Row& row) { is_table = row.text(0) == "table"; });
    if (is_table)
      each(fmt::format("PRAGMA table_info({})", table), [&](const Row& row) { out.insert(row.text(1)); });
    return out;
  }

 private:
  const std::string& path_;
  sqlite3* database_ = nullptr;
};

/// A process and a device of it.
using Device = std::pair<std::int64_t, std::int64_t>;

struct Kernel {
  Span ran;
  std::int64_t stream = 0;
  std::int64_t correlation = 0;
  Kind kind = Kind::unknown;
};

struct Launch {
  std::int64_t at_ns = 0;
  std::int64_t thread = 0;
};

constexpr std::size_t kMaxPayload = 65'536;  // bytes; NCCL's have some hundred
constexpr std::size_t kMaxLabel = 100;       // bytes that are kept of a step's or a communicator's name

/// An NVTX range of NCCL on a host thread.
struct NcclRange {
  Span span;
  Kind kind = Kind::unknown;
  std::int64_t bytes = 0;
  std::string communicator;
};

std::int64_t process_of(std::int64_t global_thread) {
  constexpr std::int64_t kThreads = std::int64_t{1} << 24U;
  return global_thread / kThreads * kThreads;
}

class Export {
 public:
  Export(const std::string& path, std::string_view step) : path_(path), step_(step), database_(path) {
    read_kernels();
    read_copies();
    read_launches();
    read_ranges();
  }

  std::vector<RankTrace> traces() {
    std::vector<RankTrace> out;
    for (auto& [device, trace] : by_device_) {
      trace.path = path_;
      trace.rank = by_device_.size() == 1 ? rank_in_name(path_) : static_cast<std::int64_t>(out.size());
      trace.steps = steps_[device.first];
      add_exchanges(device, trace);
      if (by_device_.size() > 1 && out.empty())
        trace.notes.emplace_back("an export does not state ranks: they are numbered by process and device");
      out.push_back(std::move(trace));
    }
    return out;
  }

 private:
  Span span(const Row& row) const {
    const Span out{row.integer(0), row.integer(1)};
    if (out.first < -kMaxNs || out.second > kMaxNs || out.second < out.first)
      refuse(path_, "events that end after they begin", fmt::format("{} to {}", out.first, out.second));
    return out;
  }

  [[noreturn]] void refuse_more(std::string_view what, std::size_t max) const {
    refuse(path_, fmt::format("at most {} {}", max, what), "more");
  }

  void read_kernels() {
    const std::set<std::string> columns = database_.columns("CUPTI_ACTIVITY_KIND_KERNEL");
    for (const char* needed : {"start", "end", "deviceId", "streamId", "correlationId", "shortName"})
      if (!columns.contains(needed))
        refuse(path_, "an export of Nsight Systems with CUDA kernels (nsys profile --trace cuda,nvtx)",
               columns.empty() ? "no table CUPTI_ACTIVITY_KIND_KERNEL" : fmt::format("no column {}", needed));
    const bool has_process = columns.contains("globalPid");
    const std::set<std::string> texts = database_.columns("StringIds");
    if (!texts.contains("id") || !texts.contains("value"))
      refuse(path_, "an export of Nsight Systems with the table StringIds", "none");
    database_.each(
        fmt::format("SELECT k.start, k.end, k.deviceId, k.streamId, k.correlationId, {}, substr(s.value, 1, "
                    "1000) FROM "
                    "CUPTI_ACTIVITY_KIND_KERNEL k LEFT JOIN StringIds s ON s.id = k.shortName",
                    has_process ? "k.globalPid" : "0"),
        [&](const Row& row) {
          const Device device{row.integer(5), row.integer(2)};
          Kernel kernel = {.ran = span(row), .stream = row.integer(3), .correlation = row.integer(4)};
          RankTrace& trace = by_device_[device];
          if (by_device_.size() > kMaxDevices) refuse_more("GPUs of processes", kMaxDevices);
          const std::string name = row.text(6);
          kernel.kind = kind_of(name);
          if (kineto::is_communication_kernel(name)) {
            if (++exchanges_ > kMaxExchanges) refuse_more("NCCL kernels", kMaxExchanges);
            kernels_[device].push_back(kernel);
          } else {
            trace.compute.push_back(kernel.ran);
          }
        });
  }

  void read_copies() {
    for (const char* table : {"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"}) {
      const std::set<std::string> columns = database_.columns(table);
      if (!columns.contains("start") || !columns.contains("end") || !columns.contains("deviceId")) continue;
      database_.each(fmt::format("SELECT start, end, deviceId, {} FROM {}",
                                 columns.contains("globalPid") ? "globalPid" : "0", table),
                     [&](const Row& row) {
                       const auto found = by_device_.find({row.integer(3), row.integer(2)});
                       if (found != by_device_.end()) found->second.copies.push_back(span(row));
                     });
    }
  }

  /// Only launches of communication kernels are kept.
  void read_launches() {
    const std::set<std::string> columns = database_.columns("CUPTI_ACTIVITY_KIND_RUNTIME");
    if (!columns.contains("correlationId") || !columns.contains("globalTid") || kernels_.empty()) return;
    std::set<std::int64_t> wanted;
    for (const auto& [device, kernels] : kernels_)
      for (const Kernel& kernel : kernels) wanted.insert(kernel.correlation);
    database_.each(
        "SELECT start, end, correlationId, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME", [&](const Row& row) {
          if (!wanted.contains(row.integer(2))) return;
          const std::int64_t thread = row.integer(3);
          launches_[{process_of(thread), row.integer(2)}] = {.at_ns = row.integer(0), .thread = thread};
        });
  }

  void read_ranges() {
    const std::set<std::string> columns = database_.columns("NVTX_EVENTS");
    if (!columns.contains("start") || !columns.contains("end") || !columns.contains("text") ||
        !columns.contains("globalTid"))
      return;
    const bool has_ids = columns.contains("textId");
    const auto optional = [&](const char* column) { return columns.contains(column) ? column : "NULL"; };
    const std::string name = has_ids ? "COALESCE(n.text, s.value)" : "n.text";
    database_.each(
        fmt::format(
            "SELECT n.start, n.end, {}, n.globalTid, {}, {}, {} FROM NVTX_EVENTS n {} WHERE n.end IS NOT "
            "NULL",
            name, optional("jsonText"), columns.contains("jsonTextId") ? "j.value" : "NULL",
            optional("binaryData"),
            std::string(has_ids ? "LEFT JOIN StringIds s ON s.id = n.textId" : "") +
                (columns.contains("jsonTextId") ? " LEFT JOIN StringIds j ON j.id = n.jsonTextId" : "")),
        [&](const Row& row) {
          const std::string text = row.text(2);
          if (!step_.empty() && text.rfind(step_, 0) == 0) {
            // each GPU has the steps of its process
            if (++steps_of_processes_ * by_device_.size() > kMaxSteps)
              refuse_more("steps of all GPUs", kMaxSteps);
            steps_[process_of(row.integer(3))].push_back(
                {.label = text.substr(step_.size(), kMaxLabel), .span = span(row)});
          }
          if (text.rfind("nccl", 0) != 0 || text.rfind("ncclGroup", 0) == 0) return;
          NcclRange range = {.span = span(row), .kind = kind_of(text)};
          if (++ranges_ > kMaxExchanges) refuse_more("ranges of NCCL", kMaxExchanges);
          describe(row.is_null(4) ? row.text(5) : row.text(4), row.text(6), range);
          nccl_[row.integer(3)].push_back(std::move(range));
        });
    if (steps_.empty() && !step_.empty() && step_ != kDefaultStep)
      throw core::InputError(
          fmt::format("{}: /NVTX_EVENTS: expected ranges whose names begin with \"{}\" (--step), got none",
                      core::one_line(path_), core::printable(step_)));
    for (auto& [thread, ranges] : nccl_)
      std::stable_sort(ranges.begin(), ranges.end(),
                       [](const NcclRange& a, const NcclRange& b) { return a.span.first < b.span.first; });
  }

  /// The payload of NCCL's range, as JSON (`--include-json true`) or as bytes (`--include-blobs true`): the
  /// communicator in the first 8 bytes, then the size of the message.
  static void describe(const std::string& json, const std::string& bytes, NcclRange& range) {
    if (json.size() > kMaxPayload) return;
    if (!json.empty()) {
      const nlohmann::json parsed = nlohmann::json::parse(json, nullptr, false);
      if (parsed.is_object())
        for (const auto& [key, value] : parsed.items()) {
          if (key.find("essage size") != std::string::npos && value.is_number_unsigned())
            range.bytes = static_cast<std::int64_t>(
                std::min(value.get<std::uint64_t>(), static_cast<std::uint64_t>(core::kMaxBytes)));
          if (key.find("ommunicator") != std::string::npos && !value.is_structured())
            range.communicator = value.dump().substr(0, kMaxLabel);
        }
      return;
    }
    constexpr std::size_t kNeeded = 16;
    constexpr std::size_t kMost = 32;
    if (bytes.size() < kNeeded || bytes.size() > kMost) return;
    const auto number = [&](std::size_t at) {
      std::uint64_t out = 0;
      for (std::size_t i = 8; i-- > 0;) out = out << 8U | static_cast<unsigned char>(bytes[at + i]);
      return out;
    };
    if (number(8) == 0 || number(8) > static_cast<std::uint64_t>(core::kMaxBytes)) return;
    range.bytes = static_cast<std::int64_t>(number(8));
    range.communicator = fmt::to_string(number(0));
  }

  const NcclRange* around(const Launch& launch) const {
    const auto found = nccl_.find(launch.thread);
    if (found == nccl_.end()) return nullptr;
    const std::vector<NcclRange>& ranges = found->second;
    auto after =
        std::upper_bound(ranges.begin(), ranges.end(), launch.at_ns,
                         [](std::int64_t at, const NcclRange& range) { return at < range.span.first; });
    constexpr int kNear = 16;
    for (int i = 0; i < kNear && after != ranges.begin(); ++i) {
      --after;
      if (after->span.second >= launch.at_ns) return &*after;
    }
    return nullptr;
  }

  void add_exchanges(const Device& device, RankTrace& trace) {
    std::vector<std::int64_t> launched;
    std::int64_t without_size = 0;
    std::map<std::pair<std::string, std::int64_t>, std::uint32_t> groups;  // by communicator and stream
    for (const Kernel& kernel : kernels_[device]) {
      const auto launch = launches_.find({device.first, kernel.correlation});
      const NcclRange* range = launch == launches_.end() ? nullptr : around(launch->second);
      Kind kind = kernel.kind;
      if (range != nullptr && range->kind != Kind::unknown) kind = range->kind;
      Exchange exchange = {.ran = kernel.ran, .kind = kind};
      const std::string communicator = range == nullptr ? "" : range->communicator;
      if (range != nullptr) exchange.bytes = range->bytes;
      if (exchange.bytes == 0) ++without_size;
      exchange.group = group(trace, communicator, kernel.stream, groups);
      trace.exchanges.push_back(std::move(exchange));
      launched.push_back(launch == launches_.end() ? kernel.ran.first : launch->second.at_ns);
    }
    if (trace.exchanges.empty())
      trace.notes.emplace_back("no NCCL kernels on this GPU");
    else if (without_size > 0)
      trace.notes.push_back(
          fmt::format("the export holds no payload for {} of {} NCCL kernels, so their sizes are unknown: "
                      "export again with "
                      "--include-blobs true --include-json true, from a report with NVTX",
                      without_size, trace.exchanges.size()));
    finish(trace, launched);
  }

  static std::uint32_t group(RankTrace& trace, const std::string& communicator, std::int64_t stream,
                             std::map<std::pair<std::string, std::int64_t>, std::uint32_t>& known) {
    trace.states_parts = true;
    const std::int64_t own_stream = communicator.empty() ? stream : -1;
    const auto [place, is_new] =
        known.try_emplace({communicator, own_stream}, static_cast<std::uint32_t>(trace.groups.size()));
    if (!is_new) return place->second;
    constexpr std::size_t kMaxGroups = 10'000;
    if (known.size() > kMaxGroups)
      refuse(trace.path,
             fmt::format("at most {} communicators, or streams without one, on a GPU", kMaxGroups), "more");
    trace.groups.push_back({.name = communicator, .stream = own_stream});
    return place->second;
  }

  std::string path_;
  std::string step_;
  Database database_;
  std::map<Device, RankTrace> by_device_;
  std::map<Device, std::vector<Kernel>> kernels_;                     ///< that communicate
  std::map<std::pair<std::int64_t, std::int64_t>, Launch> launches_;  ///< by process and correlation
  std::map<std::int64_t, std::vector<NcclRange>> nccl_;               ///< by thread
  std::map<std::int64_t, std::vector<Step>> steps_;                   ///< by process
  std::size_t exchanges_ = 0;
  std::size_t ranges_ = 0;
  std::size_t steps_of_processes_ = 0;
};

}  // namespace

std::vector<RankTrace> read_nsys(const std::string& path, std::string_view step) {
  std::vector<RankTrace> out = Export(path, step).traces();
  if (out.empty()) refuse(path, "kernels of a GPU", "none");
  return out;
}

}  // namespace ranks
