// Computes every figure of papers and judges it.

#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "validate/paper/judge.hpp"
#include "validate/paper/paper.hpp"
#include "validate/paper/values.hpp"

namespace validate {

struct FigureResult {
  Figure figure;
  Values ours;
  Outcome outcome;
  bool is_wall_clock = false;
};

/// A mean error, and the number of figures in it: figures to which an input was fitted are excluded.
struct ScoreResult {
  Score score;
  std::size_t figures = 0;
  std::size_t calibrated = 0;
  std::vector<std::string> missing;  ///< names of those that have no error, which is a fault
  double mean_error = 0;

  std::size_t all() const { return figures + calibrated + missing.size(); }
};

struct PaperResult {
  Paper paper;
  std::vector<FigureResult> figures;
  std::vector<ScoreResult> scores;
};

/// Throws InputError if the paper's file asks for something impossible. `progress` is called before each
/// figure, with its name.
PaperResult reproduce(const Paper& paper, const std::function<void(const std::string&)>& progress = {});

/// Returns the sorted files `*.paper.json` of a folder; throws InputError if there are none.
std::vector<std::filesystem::path> paper_files(const std::filesystem::path& folder);

/// Returns the reasons why the validation fails, one per line.
std::vector<std::string> faults(const std::vector<PaperResult>& results);

}  // namespace validate
