// Compares predictions with measurements: the error of each case, the errors of two simpler predictors, and
// whether the plan predicted best is the best.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "validate/live/compare.hpp"

namespace suite {

/// The role of a plan in its group.
enum class Part { any, wfbp, one_group, ddp, exact };

/// One run of a case: its prediction and its measurement.
struct CaseRun {
  double predicted_us = 0;
  std::optional<double> alpha_beta_us = {};  ///< prediction of the plain alpha-beta model
  std::vector<double> iterations_us;
  std::vector<std::string> noise;  ///< why the run cannot be judged; empty: the machine was quiet
};

/// One plan, predicted and measured.
struct Case {
  std::string group;
  std::string name;
  std::string compute;  ///< how layers are emulated or run: waiting, cpu, PyTorch
  Part part = Part::any;
  bool is_dense = true;  ///< neither compressed nor sparse
  std::vector<CaseRun> runs;
  std::uint32_t attempts = 1;  ///< of its group; the numbers are those of the last attempt
};

/// Tolerances as fractions: 0.02 is 2 %.
struct Tolerance {
  double mean = 0.02;        ///< of the dense cases
  double worst = 0.06;       ///< of any case
  double lossy_mean = 0.04;  ///< of the cases that are compressed or sparse
  double null_times = 2;     ///< minimum ratio of the null predictor's error to ours where plans differ
  double ranking = 0.01;     ///< how much slower than the best plan the plan predicted best may be
};

enum class Verdict { passed, failed, not_judged };
std::string_view name(Verdict verdict);

/// A case, judged by its quiet runs. Errors are signed and relative to the measurement: predicted / measured
/// - 1, for each iteration with the prediction made before its run; the median over all iterations.
struct Row {
  Case of;
  Verdict verdict = Verdict::not_judged;
  std::string why;          ///< why it is not judged; empty if it is
  double predicted_us = 0;  ///< the median over the runs, like the next
  std::optional<double> alpha_beta_us;
  live::Median measured_us;
  double error = 0;
  double error_low = 0;
  double error_high = 0;
  std::optional<double>
      null_error;  ///< of the null predictor: the smaller of the measured times of WFBP and one group
  std::optional<double> alpha_beta_error;
};

/// Whether the plan predicted best was the best.
struct Ranking {
  std::string group;
  Verdict verdict = Verdict::not_judged;
  std::string predicted_best;
  std::string measured_best;
  double loss = 0;  ///< how much longer the plan predicted best took, as a fraction
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
  /// In groups whose measured plans differ by more than 5 %, over the cases with all three predictors.
  Errors ours_where_plans_differ;
  Errors null_where_plans_differ;
  Errors alpha_beta_where_plans_differ;
  std::size_t not_judged = 0;
  std::vector<std::string> faults;  ///< results outside their tolerance, one per line
};

Report judge(std::span<const Case> cases, const Tolerance& tolerance);

}  // namespace suite
