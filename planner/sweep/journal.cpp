#include "planner/sweep/journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/errors.hpp"
#include "core/files.hpp"
#include "sim/fnv.hpp"

namespace sweep {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kFormat = "fusewise.sweep_journal";

/// Takes the word before the next space; none if there is no space.
std::optional<std::string_view> take_word(std::string_view& line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view word = line.substr(0, space);
  line.remove_prefix(space + 1);
  return word;
}

std::optional<std::size_t> take_number(std::string_view& line) {
  const std::optional<std::string_view> word = take_word(line);
  if (!word) return std::nullopt;
  std::size_t out = 0;
  const auto [end, problem] = std::from_chars(word->data(), word->data() + word->size(), out);
  if (problem != std::errc() || end != word->data() + word->size()) return std::nullopt;
  return out;
}

/// The checksum covers the sweep by the hash of the journal's header, so lines of another sweep are rejected.
std::string check(std::uint64_t header_hash, std::size_t nth, std::size_t point, std::string_view rest) {
  return fmt::format("{:016x}", sim::fnv1a(rest, sim::fnv1a(fmt::format("{} {} ", nth, point), header_hash)));
}

std::string line_of(std::uint64_t header_hash, std::size_t nth, const Finished& finished) {
  ordered_json texts = {finished.record.row};
  for (const std::string& warning : finished.record.warnings) texts.push_back(warning);
  const std::string rest = texts.dump();
  return fmt::format("{} {} {} {}\n", nth, finished.point, check(header_hash, nth, finished.point, rest),
                     rest);
}

/// Parses a line without its newline; none if it is incomplete.
std::optional<Finished> parse_line(std::uint64_t header_hash, std::size_t points, std::size_t nth,
                                   std::string_view line) {
  const std::optional<std::size_t> its_nth = take_number(line);
  const std::optional<std::size_t> point = take_number(line);
  const std::optional<std::string_view> its_check = take_word(line);
  if (!its_check || its_nth != nth || !point || *point >= points) return std::nullopt;
  if (*its_check != check(header_hash, nth, *point, line)) return std::nullopt;
  const ordered_json texts = ordered_json::parse(line);
  Finished out = {.point = *point, .record = {.row = texts.at(0), .warnings = {}}};
  for (std::size_t i = 1; i < texts.size(); ++i) out.record.warnings.push_back(texts[i]);
  return out;
}

/// The inputs that differ, such as "profile and network".
std::string differences(const Identity& identity, const ordered_json& header) {
  std::vector<std::string> out;
  const ordered_json& others = header.at("inputs");
  for (const auto& [name, fingerprint] : identity.inputs)
    if (!others.contains(name) || others.at(name) != fingerprint) out.push_back(name);
  for (const auto& [name, fingerprint] : others.items()) {
    const bool known = std::ranges::any_of(identity.inputs,
                                           [&, key = name](const auto& input) { return input.first == key; });
    if (!known) out.push_back(name);
  }
  if (out.empty()) return "number of points";
  return fmt::format("{}", fmt::join(out, ", "));
}

void check_header(std::string_view line, const Identity& identity, std::string_view source) {
  if (line == journal_header(identity)) return;
  const ordered_json header = ordered_json::parse(line, nullptr, false);
  const auto is_text = [](const ordered_json& value) { return value.is_string(); };
  bool is_journal = header.is_object() && header.contains("format") && is_text(header["format"]) &&
                    header["format"] == kFormat && header.contains("inputs") && header["inputs"].is_object();
  // Nested values are not copied or compared, as that recurses.
  is_journal = is_journal && std::ranges::all_of(header["inputs"], is_text);
  if (!is_journal)
    throw core::InputError(
        fmt::format("{}: /: expected the journal of a sweep, or no such file, got another file", source));
  throw core::InputError(fmt::format(
      "{}: /: expected the journal of this sweep (or delete it to begin again), got one made with another {}",
      source, differences(identity, header)));
}

}  // namespace

std::string journal_header(const Identity& identity) {
  ordered_json inputs = ordered_json::object();
  for (const auto& [name, fingerprint] : identity.inputs) inputs[name] = fingerprint;
  const ordered_json header = {
      {"format", kFormat}, {"version", 1}, {"points", identity.points}, {"inputs", std::move(inputs)}};
  return header.dump() + '\n';
}

std::string journal_line(const Identity& identity, std::size_t nth, const Finished& finished) {
  return line_of(sim::fnv1a(journal_header(identity)), nth, finished);
}

Recovered recover(std::string_view text, const Identity& identity, std::string_view source) {
  Recovered out;
  std::size_t end = text.find('\n');
  if (end == std::string_view::npos) {
    const std::string whole = journal_header(identity);
    if (std::string_view(whole).substr(0, text.size()) != text) check_header(text, identity, source);
    return out;  // killed while writing the first line
  }
  check_header(text.substr(0, end + 1), identity, source);
  out.bytes = end + 1;
  const std::uint64_t header_hash = sim::fnv1a(journal_header(identity));
  std::set<std::size_t> seen;
  while ((end = text.find('\n', out.bytes)) != std::string_view::npos) {
    std::optional<Finished> line = parse_line(header_hash, identity.points, out.finished.size() + 1,
                                              text.substr(out.bytes, end - out.bytes));
    if (!line || !seen.insert(line->point).second) break;
    out.finished.push_back(*std::move(line));
    out.bytes = end + 1;
  }
  return out;
}

Journal::Journal(std::filesystem::path file, Identity identity, bool resume)
    : file_(std::move(file)), identity_(std::move(identity)) {
  constexpr mode_t kMode = 0666;  // reduced by the umask
  // Not through a link: somebody else may have put it into a folder for all, and remove() would leave its
  // file.
  fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, kMode);
  if (fd_ < 0) cannot("cannot write");
  try {
    take_over(resume);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

Journal::~Journal() { ::close(fd_); }

void Journal::take_over(bool resume) {
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) cannot("another process is at this sweep");
  Recovered recovered = recover(core::read_own_file(file_), identity_, file_.string());
  if (!resume && !recovered.finished.empty())
    throw core::InputError(fmt::format(
        "{}: /: expected --resume, or no journal of an unfinished sweep, got one of {} of {} points",
        file_.string(), recovered.finished.size(), identity_.points));
  if (::ftruncate(fd_, static_cast<off_t>(recovered.bytes)) != 0) cannot("cannot write");
  const std::string header = journal_header(identity_);
  header_hash_ = sim::fnv1a(header);
  if (recovered.bytes == 0) write(header);
  earlier_ = std::move(recovered.finished);
  lines_ = earlier_.size();
}

void Journal::add(std::span<const Finished> finished) {
  std::string lines;
  std::size_t count = lines_;
  for (const Finished& each : finished) lines += line_of(header_hash_, ++count, each);
  const off_t end = ::lseek(fd_, 0, SEEK_END);
  try {
    write(lines);
  } catch (...) {  // lines behind a torn one would be lost
    if (end >= 0) (void)!::ftruncate(fd_, end);
    throw;
  }
  lines_ = count;
  const auto now = std::chrono::steady_clock::now();
  if (now - synced_ < std::chrono::seconds(1)) return;
  synced_ = now;
  if (::fdatasync(fd_) != 0) cannot("cannot write");
}

void Journal::remove() {
  if (::unlink(file_.c_str()) != 0) cannot("cannot remove");
}

void Journal::cannot(std::string_view what) const {
  throw core::EnvironmentError(
      fmt::format("{}: {}: {}", file_.string(), what, std::generic_category().message(errno)));
}

void Journal::write(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) cannot("cannot write");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace sweep
