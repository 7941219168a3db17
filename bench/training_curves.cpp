// Trains with every method, with and without error feedback, and prints the table of docs/convergence.md;
// `training_curves [FILE.svg]` also plots the losses. Run build/training_curves from a release build.

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "training/train.hpp"

namespace {

using training::Job;
using training::Result;

constexpr std::uint64_t kSeeds = 5;

/// The results of one method over all seeds.
struct Trained {
  std::string_view method;
  std::string_view how;
  double loss = 0;      ///< the mean
  double relative = 0;  ///< relative to dense with the same seed: the mean, as the next
  double min = 1e300;   ///< minimum of `relative`
  double max = 0;
  double words = 0;           ///< the mean
  std::vector<double> curve;  ///< of the first seed
};

Trained train_all(const training::Method& method, bool error_feedback, const std::vector<double>& dense) {
  Trained out{.method = method.name, .how = method.how};
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Job job = {.seed = seed, .method = std::string(method.name)};
    job.aggregate.error_feedback = error_feedback;
    const Result result = training::train(job);
    const double relative = dense.empty() ? 1 : result.final_loss / dense[seed - 1];
    out.loss += result.final_loss / kSeeds;
    out.relative += relative / kSeeds;
    out.min = std::min(out.min, relative);
    out.max = std::max(out.max, relative);
    out.words += result.words_per_iteration() / kSeeds;
    if (seed == 1) out.curve = result.loss_by_iteration();
  }
  return out;
}

std::vector<double> dense_losses() {
  std::vector<double> out;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed)
    out.push_back(training::train({.seed = seed}).final_loss);
  return out;
}

// ---- the table

std::string per_cent(const Trained& trained) {
  const auto change = [](double relative) { return fmt::format("{:+.1f}", 100 * (relative - 1)); };
  constexpr double kFar = 10;
  if (trained.max > kFar) return fmt::format("{:.0f} to {:.0f} times", trained.min, trained.max);
  return fmt::format("{} ({} to {})", change(trained.relative), change(trained.min), change(trained.max));
}

void print_row(const Trained& with, const Trained& without) {
  if (with.method == "dense") {
    fmt::print("| dense | {} | {:.3f} | | | | {:.0f} |\n", with.how, with.loss, with.words);
    return;
  }
  fmt::print("| {} | {} | {:.3f} | {} | {:.3f} | {} | {:.0f} |\n", with.method, with.how, with.loss,
             per_cent(with), without.loss, per_cent(without), with.words);
}

// ---- the plot

constexpr double kTop = 70;
constexpr double kBottom = 440;
constexpr double kPanelWidth = 400;
constexpr double kMaxLoss = 2.5;
constexpr std::array<std::string_view, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#e69f00", "#56b4e9", "#000000", "#8c6d1f"};

/// Batches are small: the mean of neighbours shows the trend of a curve.
std::vector<double> smoothed(const std::vector<double>& curve) {
  constexpr std::size_t kWindow = 50;
  std::vector<double> out;
  for (std::size_t begin = 0; begin + kWindow <= curve.size(); begin += kWindow / 2) {
    double sum = 0;
    for (std::size_t i = begin; i < begin + kWindow; ++i) sum += curve[i];
    out.push_back(sum / kWindow);
  }
  return out;
}

double y_of(double loss) { return kBottom - (kBottom - kTop) * std::min(loss, kMaxLoss) / kMaxLoss; }

std::string stroke(std::size_t line) {
  return fmt::format("stroke=\"{}\"{}", kColours[line % kColours.size()],
                     line >= kColours.size() ? " stroke-dasharray=\"5 3\"" : "");
}

std::string axes(double left, std::string_view title, std::size_t iterations) {
  std::string svg = fmt::format("<text class=\"head\" x=\"{}\" y=\"{}\">{}</text>\n", left, kTop - 16, title);
  for (int half = 0; half <= 2 * kMaxLoss; ++half) {
    const double loss = 0.5 * half;
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0} {1:.1f}h{2}\"/>\n<text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5:.1f}</text>\n",
        left, y_of(loss), kPanelWidth, left - 6, y_of(loss) + 4, loss);
  }
  for (const int part : {0, 1, 2})
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       left + kPanelWidth * part / 2, kBottom + 20,
                       iterations * static_cast<std::size_t>(part) / 2);
  return svg;
}

/// Draws all methods in one panel; curves are clipped at its top.
std::string panel(double left, std::string_view title, const std::vector<Trained>& all) {
  std::string svg = axes(left, title, all.front().curve.size());
  for (std::size_t line = 0; line < all.size(); ++line) {
    const std::vector<double> curve = smoothed(all[line].curve);
    std::string path;
    for (std::size_t i = 0; i < curve.size(); ++i)
      path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L",
                          left + kPanelWidth * static_cast<double>(i) / static_cast<double>(curve.size() - 1),
                          y_of(curve[i]));
    svg += fmt::format("<path class=\"line\" {} d=\"{}\"><title>{}</title></path>\n", stroke(line), path,
                       all[line].method);
  }
  return svg;
}

std::string legend(double left, const std::vector<Trained>& all) {
  std::string svg;
  for (std::size_t line = 0; line < all.size(); ++line) {
    const double y = kTop + 20 * static_cast<double>(line);
    svg += fmt::format("<path class=\"line\" {0} d=\"M{1} {2}h24\"/>\n<text x=\"{3}\" y=\"{4}\">{5}</text>\n",
                       stroke(line), left, y, left + 32, y + 4, all[line].method);
  }
  return svg;
}

std::string plot(const std::vector<Trained>& with, const std::vector<Trained>& without) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1080 490\" width=\"1080\" height=\"490\" "
         "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n<style>"
         ".title{font-size:17px;font-weight:bold}.head{font-size:13px;font-weight:bold}.grid{stroke:#d9d9d9}"
         ".line{fill:none;stroke-width:1.6}</style>\n<rect width=\"1080\" height=\"490\" fill=\"#fff\"/>\n"
         "<text class=\"title\" x=\"24\" y=\"30\">Training loss by iteration</text>\n" +
         panel(50, "with error feedback", with) + panel(500, "without", without) + legend(930, with) +
         "</svg>\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<double> dense = dense_losses();
  std::vector<Trained> with;
  std::vector<Trained> without;
  fmt::print(
      "| method | travels by | loss with feedback | % over dense | without | % over dense | words |\n");
  fmt::print("| --- | --- | ---: | ---: | ---: | ---: | ---: |\n");
  for (const training::Method& method : training::methods()) {
    with.push_back(train_all(method, true, dense));
    without.push_back(method.name == "dense" ? with.back() : train_all(method, false, dense));
    print_row(with.back(), without.back());
    std::fflush(stdout);
  }
  if (argc > 1) {
    std::ofstream file(argv[1]);
    file << plot(with, without);
    if (!file.flush()) {
      fmt::print(stderr, "{}: cannot be written\n", argv[1]);
      return 1;
    }
  }
  return 0;
}
