// Predicted beside measured: how far off each case is, how far off two plainer predictors would be, and
// whether the plan that was predicted best is.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "validate/live/compare.hpp"

namespace suite {

/// What a plan is in its group besides a plan.
enum class Part { any, wfbp, one_group, ddp, exact };

/// One time that a case was predicted and then run.
struct CaseRun {
  double predicted_us = 0;
  std::optional<double> alpha_beta_us = {};  ///< what the plain model predicts
  std::vector<double> iterations_us;
  std::vector<std::string> noise;  ///< why nothing may be concluded from it; none: the machine was quiet
};

/// One plan, predicted and measured.
struct Case {
  std::string group;
  std::string name;
  std::string compute;  ///< what stood for the layers: waiting, cpu, PyTorch
  Part part = Part::any;
  bool is_dense = true;  ///< neither compressed nor sparse
  std::vector<CaseRun> runs;
  std::uint32_t attempts = 1;  ///< of its group; the last one's numbers stand here
};

/// As shares: 0.02 is 2 %.
struct Tolerance {
  double mean = 0.02;        ///< of the dense cases
  double worst = 0.06;       ///< of any case
  double lossy_mean = 0.04;  ///< of the cases that are compressed or sparse
  double null_times = 2;     ///< how many times our error the null predictor's has to be where plans differ
  double ranking = 0.01;     ///< how much slower than the best the plan predicted best may be
};

enum class Verdict { passed, failed, not_judged };
std::string_view name(Verdict verdict);

/// A case, judged by its quiet runs. Errors are signed and relative to what was measured: predicted /
/// measured - 1, of each iteration by the prediction that its run was begun with, and of all these the
/// median.
struct Row {
  Case of;
  Verdict verdict = Verdict::not_judged;
  std::string why;          ///< it is not judged
  double predicted_us = 0;  ///< the median of the runs', as the next
  std::optional<double> alpha_beta_us;
  live::Median measured_us;
  double error = 0;
  double error_low = 0;
  double error_high = 0;
  std::optional<double>
      null_error;  ///< of one who says: as long as the better of measured WFBP and one group
  std::optional<double> alpha_beta_error;
};

/// Whether the plan predicted best was.
struct Ranking {
  std::string group;
  Verdict verdict = Verdict::not_judged;
  std::string predicted_best;
  std::string measured_best;
  double loss = 0;  ///< how much longer the former was measured to take
};

/// Means of absolute errors.
struct Errors {
  std::size_t cases = 0;
  double mean = 0;
  double worst = 0;
};

struct Report {
  std::vector<Row> rows;
  std::vector<Ranking> rankings;
  Errors dense;
  Errors lossy;
  /// In groups whose plans were measured to differ by more than 5 %, over the cases that have all three.
  Errors ours_where_plans_differ;
  Errors null_where_plans_differ;
  Errors alpha_beta_where_plans_differ;
  std::size_t not_judged = 0;
  std::vector<std::string> faults;  ///< what is outside its tolerance, a line each
};

Report judge(std::span<const Case> cases, const Tolerance& tolerance);

}  // namespace suite
