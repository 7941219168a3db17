// The time of a GPU shared among kernels, waits, communication and copies: small timelines by hand, and a
// property.

#include "profiler/traces/kineto/device_time.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/support/random.hpp"

namespace kineto {
namespace {

/// The second of two kernels: the first runs from 0 to 10 ns.
DeviceTime second(std::int64_t launched, std::int64_t start, std::int64_t end,
                  const OtherSpans& others = {}) {
  return split_device_time(
             {{.ran = {0, 10}, .launched_ns = -5}, {.ran = {start, end}, .launched_ns = launched}}, others)
      .kernels[1];
}

bool is(const DeviceTime& time, const DeviceTime& expected) {
  return time.busy_ns == expected.busy_ns && time.wait_ns == expected.wait_ns &&
         time.exposed_ns == expected.exposed_ns && time.exchange_ns == expected.exchange_ns &&
         time.copying_ns == expected.copying_ns;
}

TEST_CASE("device time: an idle GPU waits for a launch that comes late") {
  //  kernels  |==========|          |=====|
  //  launch                  ^ 15
  CHECK(is(second(15, 20, 25), {.busy_ns = 5, .wait_ns = 10}));
  CHECK(is(second(0, 10, 25), {.busy_ns = 15}));
}

TEST_CASE("device time: a kernel that was launched waits for communication where some runs") {
  //  kernels     |==========|              |=====|      launched at 8
  //  all-reduce        |===================|            5 to 25
  CHECK(is(second(8, 25, 30, {.gradients = {{5, 25}}}), {.busy_ns = 5, .exposed_ns = 15}));
  CHECK(is(second(8, 25, 30, {.gradients = {{5, 20}}}), {.busy_ns = 5, .wait_ns = 5, .exposed_ns = 10}));
  CHECK(is(second(8, 25, 30, {.exchanges = {{5, 25}}}), {.busy_ns = 5, .exchange_ns = 15}));
  // a gradient collective explains what both do
  CHECK(is(second(8, 25, 30, {.gradients = {{15, 25}}, .exchanges = {{5, 20}}}),
           {.busy_ns = 5, .exchange_ns = 5, .exposed_ns = 10}));
}

TEST_CASE(
    "device time: a kernel of a layer waits for an exchange of its pass, and not for gradients beside it") {
  //  kernels     |==========|              |=====|      launched at 8
  //  gradients         |==============|                 5 to 20
  //  exchange                 ....|========|            queues from 12, runs from 20 to 25
  const OtherSpans others = {
      .gradients = {{5, 20}}, .exchanges = {{20, 25}}, .in_passes = {{.span = {12, 25}, .launched_ns = 7}}};
  const ComputeKernel first = {.ran = {0, 10}, .launched_ns = -5};
  ComputeKernel next = {.ran = {25, 30}, .launched_ns = 8, .is_of_layer = true};
  const auto split = [&] { return split_device_time({first, next}, others); };
  CHECK(is(split().kernels[1], {.busy_ns = 5, .exchange_ns = 13, .exposed_ns = 2}));
  CHECK(split().in_passes == Spans{{12, 25}});
  next.launched_ns = 6;  // before the exchange, which it cannot wait for
  CHECK(is(split().kernels[1], {.busy_ns = 5, .exchange_ns = 5, .exposed_ns = 10}));
  CHECK(split().in_passes.empty());
  next.launched_ns = 8;
  next.is_of_layer = false;  // the update waits for all gradients
  CHECK(is(split().kernels[1], {.busy_ns = 5, .exchange_ns = 5, .exposed_ns = 10}));
  CHECK(split().in_passes.empty());
}

TEST_CASE("device time: before a launch communication counts only while the host is blocked") {
  //  kernels     |==========|                    |=====|      launched at 23
  //  all-reduce        |==============|                       5 to 20
  //  blocked                  |=============|                 12 to 22
  CHECK(is(second(23, 25, 30, {.gradients = {{5, 20}}, .blocked = {{12, 22}}}),
           {.busy_ns = 5, .wait_ns = 7, .exposed_ns = 8}));
  CHECK(is(second(23, 25, 30, {.gradients = {{5, 20}}}), {.busy_ns = 5, .wait_ns = 15}));
}

TEST_CASE("device time: a short gap before a kernel that was launched well in time is the device's own") {
  //  kernels  |=====================|  |=====|      from 0 to 50'000, and from 52'000
  const ComputeKernel first = {.ran = {0, 50'000}, .launched_ns = -5000};
  const auto after_gap = [&](std::int64_t launched_ns, std::int64_t gap_ns) {
    const Span ran = {50'000 + gap_ns, 80'000};
    return split_device_time({first, {.ran = ran, .launched_ns = launched_ns}}, {}).kernels[1];
  };
  CHECK(is(after_gap(30'000, 2000), {.busy_ns = 30'000}));
  CHECK(is(after_gap(45'000, 2000), {.busy_ns = 28'000, .wait_ns = 2000}));  // just launched
  CHECK(is(after_gap(30'000, 20'000), {.busy_ns = 10'000, .wait_ns = 20'000}));
}

TEST_CASE("device time: kernels on two streams count once, and copies count where nothing else runs") {
  CHECK(is(second(0, 5, 12), {.busy_ns = 2}));
  CHECK(is(second(0, 5, 9), {}));
  CHECK(is(second(0, 20, 30, {.copies = {{2, 18}}}), {.busy_ns = 10, .wait_ns = 2, .copying_ns = 8}));
}

TEST_CASE("device time: waits are said with their place, and one list of spans is taken from another") {
  const auto split =
      split_device_time({{.ran = {0, 10}, .launched_ns = -5}, {.ran = {25, 30}, .launched_ns = 23}},
                        {.gradients = {{5, 20}}, .blocked = {{12, 22}}});
  CHECK(split.waits == Spans{{10, 12}, {20, 25}});
  CHECK(without({{0, 10}, {20, 30}}, {{-5, 2}, {4, 6}, {8, 22}, {29, 40}}) ==
        Spans{{2, 4}, {6, 8}, {22, 29}});
  CHECK(without({{0, 10}}, {}) == Spans{{0, 10}});
}

TEST_CASE("device time: all parts add up to the time from the first start to the last end") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    support::Random random(seed);
    std::vector<ComputeKernel> kernels;
    OtherSpans others;
    std::int64_t start = 0;
    std::int64_t end = 0;
    for (std::int64_t i = random.between(1, 12); i-- > 0;) {
      start += random.between(0, 30);
      kernels.push_back(
          {.ran = {start, start + random.between(0, 20)}, .launched_ns = start - random.between(0, 40)});
      end = std::max(end, kernels.back().ran.second);
    }
    for (Spans* spans : {&others.gradients, &others.exchanges, &others.copies, &others.blocked}) {
      for (std::int64_t i = random.between(0, 8); i-- > 0;) {
        const std::int64_t from = random.between(-20, 250);
        spans->emplace_back(from, from + random.between(0, 60));
      }
      *spans = united(*spans);
    }
    std::int64_t sum = 0;
    std::int64_t waits = 0;
    const DeviceSplit split = split_device_time(kernels, others);
    for (const DeviceTime& time : split.kernels) {
      waits += time.wait_ns;
      for (const std::int64_t part :
           {time.busy_ns, time.wait_ns, time.exposed_ns, time.exchange_ns, time.copying_ns}) {
        CHECK(part >= 0);
        sum += part;
      }
    }
    CHECK(sum == end - kernels.front().ran.first);
    CHECK(length_ns(split.waits) == waits);
    CHECK(united(split.waits).size() <= split.waits.size());
    CHECK(std::is_sorted(split.waits.begin(), split.waits.end()));
  }
}

}  // namespace
}  // namespace kineto
