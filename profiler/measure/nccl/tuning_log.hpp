// What NCCL writes of the algorithm and the protocol it has taken: only its log says so.

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace measure {

struct Taken {
  std::string algorithm;  ///< in small letters: "ring"
  std::string protocol;   ///< "ll128"
  bool operator==(const Taken&) const = default;
};

/// Of the last line about this function, as "AllReduce: 4096 Bytes -> Algo RING proto LL channel..." of
/// NCCL 2.22 and later. Nothing where there is none, or it says something else.
std::optional<Taken> last_taken(std::string_view log, std::string_view function);

/// NCCL's log on for as long as this lives, in a file of its own. Only where the user has not asked for one.
class TuningLog {
 public:
  /// `reset` makes NCCL read NCCL_DEBUG anew.
  explicit TuningLog(void (*reset)());
  ~TuningLog();
  TuningLog(const TuningLog&) = delete;
  TuningLog& operator=(const TuningLog&) = delete;

  /// Whether there is anything to be learnt.
  static bool is_wanted();
  std::string text() const;

 private:
  void (*reset_)();
  std::string file_;
};

}  // namespace measure
