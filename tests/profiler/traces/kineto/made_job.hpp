// Traces of made-up training jobs whose iteration time is known: an obvious model of a host that launches
// kernels one after the other, of a device that runs them in order, and of a channel for collectives.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace kineto {

/// How a job runs and how its trace is written. Times are us.
struct MadeJob {
  enum class Wait { never, at_end, after_backward, at_begin };  ///< of the host for the device
  /// ZeRO-1/2 scatters gradients, or sums them whole, and gathers parameters after the update: by bucket, or
  /// all at once.
  enum class Zero { no, by_bucket, at_once, summed };

  std::uint64_t seed = 1;
  int layers = 4;
  int kernels = 2;           ///< of a layer's forward; its backward has twice as many
  double launch_us = 10;     ///< what the host takes for a launch
  double slow_launches = 0;  ///< the share of launches that take 30 times as long
  double kernel_us = 50;
  double gap_us = 0;        ///< of the device between kernels that were launched in time
  double between_us = 100;  ///< the host loads data between iterations
  int optimizer_kernels = 3;
  Wait wait = Wait::never;
  bool reads_loss = false;    ///< after forward: the host waits for it, and then takes some time
  bool reads_layers = false;  ///< likewise after every third layer's forward
  double reading_us = 40;
  int micro_batches = 1;
  bool sends_each_batch = false;  ///< otherwise the last micro-batch sends its gradients
  int updates = 1;  ///< of an iteration, each of a model of its own with a layer less than before
  int workers = 1;
  int rank = 0;
  Zero zero = Zero::no;
  bool gathers_beside = false;  ///< the next forward pass, whose layers wait for their own parameters
  double slower_workers_us =
      0;  ///< the first bucket of each backward pass waits for them, of which one is rank 1
  double noise = 0.01;
  int iterations = 5;

  bool has_steps = true;
  bool has_modules = true;
  bool annotates_optimizer = true;
  bool has_shapes = true;
  bool is_old = false;  ///< annotations are operators, PyTorch 1.8's categories
  bool numbers_are_text = false;
  bool has_launches = true;        ///< otherwise kernels name their operators
  bool has_graphs = false;         ///< one launch for all kernels of a forward layer
  bool is_compiled = false;        ///< forward and backward are one operator each
  bool names_accumulation = true;  ///< otherwise what it does is outside of the nodes of autograd
  bool launches_outside = false;   ///< of all operators
  bool is_hip = false;
  bool begins_amid = false;  ///< of an iteration
  bool ends_amid = false;
  bool truncates_to_us = false;
  bool copies_beside = false;  ///< the next batch, on a stream of its own
  bool sends_buffers = false;  ///< DDP broadcasts those of norms before each forward, and copies them
  /// Rank 1 comes so much later to these broadcasts, and the others wait for it, but in every fourth
  /// iteration only if it is always late.
  double late_us = 0;
  bool is_always_late = false;
  bool has_batch_norms = false;   ///< synchronized over all workers, in DDP's process group
  bool copies_gradients = false;  ///< DDP copies them out of their buckets
  bool has_sizes = true;          ///< of all-reduces
};

class MadeTrace {
 public:
  explicit MadeTrace(const MadeJob& job) : job_(job), bits_(job.seed) {
    constexpr int kBefore = 6;
    for (int i = 0; i < kBefore + job.iterations + 2; ++i) {
      const double amid = host_ - last_host_;  // the host may be far ahead of the device
      last_host_ = host_;
      if (i == kBefore) from_ = host_ + (job.begins_amid ? 0.4 * amid : 0);
      if (i == kBefore + job.iterations) to_ = job.ends_amid ? host_ + 0.5 * amid : host_;
      iteration(i);
    }
    for (int i = kBefore + 1; i < kBefore + job.iterations; ++i)
      lengths_.push_back(begins_[static_cast<std::size_t>(i)] - begins_[static_cast<std::size_t>(i) - 1]);
  }

  /// The median iteration.
  double iteration_us() const {
    std::vector<double> sorted = lengths_;
    std::sort(sorted.begin(), sorted.end());
    return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
  }

  std::string text() const {
    std::string out = fmt::format(
        "{{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": 1700000000000000000, "
        "\"deviceProperties\": [{{\"id\": 0, \"name\": \"GPU\"}}], \"distributedInfo\": {{\"backend\": "
        "\"nccl\", "
        "\"rank\": {}, \"world_size\": {}}}, \"traceEvents\": [\n",
        job_.rank, job_.workers);
    bool first = true;
    for (const Event& event : events_) {
      const bool is_kernel = event.category == "kernel";
      const double seen = is_kernel ? event.end : event.start;  // the profiler keeps what ends in its time
      if (seen < from_ || (is_kernel ? event.launched : event.end) > to_) continue;
      out += (first ? "" : ",\n") + line(event);
      first = false;
    }
    return out + "\n], \"traceName\": \"made.json\"}\n";
  }

 private:
  struct Event {
    std::string category;
    std::string name;
    int thread = 1;
    double start = 0;
    double end = 0;
    double launched = 0;
    std::string arguments = {};
  };

  int layers() const { return job_.layers - turn_; }

  double noisy(double us) {
    const double unit = static_cast<double>(bits_() % 2001) / 1000 - 1;  // -1 to 1
    return us * (1 + job_.noise * unit);
  }

  void add(std::string category, std::string name, int thread, double start, double end,
           std::string arguments = "", double launched = 0) {
    events_.push_back({.category = std::move(category),
                       .name = std::move(name),
                       .thread = thread,
                       .start = start,
                       .end = end,
                       .launched = launched,
                       .arguments = std::move(arguments)});
  }

  std::string identity() {
    return job_.has_launches ? fmt::format("\"correlation\": {}", correlation_)
                             : fmt::format("\"External id\": {}", operator_);
  }

  void launch(int thread, const std::string& kernel, double us, bool again = false) {
    if (!again) {
      ++correlation_;
      launched_ = host_;
      constexpr unsigned kParts = 1000;
      const bool is_slow =
          job_.slow_launches > 0 && static_cast<double>(bits_() % kParts) < kParts * job_.slow_launches;
      const double took = (is_slow ? 30 : 1) * noisy(job_.launch_us);
      host_ += took;
      if (job_.has_launches)
        add(job_.is_old ? "Runtime" : "cuda_runtime",
            job_.is_hip ? "hipLaunchKernel"
            : again     ? "cudaGraphLaunch"
                        : "cudaLaunchKernelExC",
            thread, launched_ + took * 0.3, launched_ + took * 0.7,
            fmt::format("\"correlation\": {}", correlation_));
    }
    constexpr double kLatency = 4;
    const double start = std::max(device_ + job_.gap_us, launched_ + kLatency + job_.launch_us * 0.3);
    device_ = start + noisy(us);
    add("kernel", kernel, 7, start, device_, identity(), launched_);
    if (is_first_) begins_.push_back(start);
    is_first_ = false;
  }

  template <typename Work>
  void range(const std::string& category, const std::string& name, int thread, const std::string& arguments,
             const Work& work) {
    const double start = host_;
    const std::size_t at = events_.size();
    if (category == "cpu_op") ++operator_;
    const std::string with_id = category == "cpu_op" ? fmt::format("\"External id\": {}{}{}", operator_,
                                                                   arguments.empty() ? "" : ", ", arguments)
                                                     : arguments;
    add(category, name, thread, start, start);
    host_ += 0.5;
    work();
    host_ += 0.5;
    events_[at].end = host_;
    events_[at].arguments = with_id;
    if (job_.is_old) events_[at].category = "Operator";
  }

  void wait_for_device(const char* call) {
    const double start = host_;
    host_ = std::max(host_, device_) + 8;
    add(job_.is_old ? "Runtime" : "cuda_runtime", call, 1, start, host_, "\"correlation\": 0");
  }

  /// `item()`: a copy to the host that is waited for.
  void read() {
    range("cpu_op", "aten::item", 1, "", [&] {
      ++correlation_;
      const double at = host_;
      host_ += 5;
      add("cuda_runtime", "cudaMemcpyAsync", 1, at, host_, fmt::format("\"correlation\": {}", correlation_));
      const double start = std::max(device_, at + 4);
      device_ = start + 1;
      add("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 7, start, device_,
          fmt::format("\"correlation\": {}, \"bytes\": 4", correlation_), at);
      wait_for_device("cudaStreamSynchronize");
    });
    host_ += noisy(job_.reading_us);
  }

  /// The process group of all workers.
  std::string group() const {
    std::string ranks;
    for (int rank = 0; rank < job_.workers; ++rank) ranks += fmt::format("{}{}", rank == 0 ? "" : ", ", rank);
    return fmt::format("\"Process Group Name\": \"0\", \"Process Group Ranks\": \"[{}]\", \"Group size\": {}",
                       ranks, job_.workers);
  }

  void send_buffers() {
    ++correlation_;
    const double at = host_;
    host_ += noisy(job_.launch_us);
    add("cuda_runtime", "cudaLaunchKernelExC", 1, at, host_,
        fmt::format("\"correlation\": {}", correlation_));
    const double late = job_.is_always_late || ++broadcasts_ % 4 != 0 ? job_.late_us : 0;
    const double start = std::max({channel_, device_, at}) + (job_.rank == 1 ? late : 0);
    device_ = channel_ = start + noisy(60) + (job_.rank == 1 ? 0 : late);
    add("kernel", "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, start, channel_,
        fmt::format("\"correlation\": {}, \"Collective name\": \"broadcast\", \"In msg nelems\": 53120, "
                    "\"Out msg nelems\": 53120, \"dtype\": \"Byte\", {}",
                    correlation_, group()),
        at);
    for (int i = 0; i < 3; ++i) range("cpu_op", "aten::copy_", 1, "", [&] { launch(1, "copy_kernel", 3); });
  }

  /// Statistics of a synchronized batch norm: they queue behind buckets, and the device waits for them.
  void exchange(int thread, const char* kind, const char* kernel) {
    ++correlation_;
    const double at = host_;
    host_ += noisy(job_.launch_us);
    add("cuda_runtime", "cudaLaunchKernelExC", thread, at, host_,
        fmt::format("\"correlation\": {}", correlation_));
    const double start = std::max({channel_, device_, at});
    device_ = channel_ = start + noisy(20);
    add("kernel", kernel, 20, start, channel_,
        fmt::format("\"correlation\": {}, \"Collective name\": \"{}\", \"In msg nelems\": 512, \"Out msg "
                    "nelems\": 512, \"dtype\": \"Float\", {}",
                    correlation_, kind, group()),
        at);
  }

  void forward(int batch) {
    if (job_.sends_buffers && job_.workers > 1) send_buffers();
    if (job_.is_compiled)
      return range("cpu_op", "CompiledFunction", 1, sequence(batch, 0), [&] {
        for (int layer = 0; layer < layers(); ++layer) kernels_of(1, layer, job_.kernels, "triton_poi_fused");
      });
    for (int layer = 0; layer < layers(); ++layer) {
      if (static_cast<std::size_t>(layer) < arrivals_.size())
        device_ = std::max(device_, arrivals_[static_cast<std::size_t>(layer)]);
      const auto operators = [&] {
        range("cpu_op", "aten::linear", 1, sequence(batch, layer) + shape("[[32, 8], [8, 8]]"), [&] {
          if (!job_.launches_outside) kernels_of(1, layer, job_.kernels, "gemm");
          if (job_.has_batch_norms) exchange(1, "_allgather_base", "ncclDevKernel_AllGather_RING_LL");
        });
        if (job_.launches_outside) kernels_of(1, layer, job_.kernels, "custom_kernel");
      };
      if (job_.has_modules)
        range("python_function", fmt::format("nn.Module: Linear_{}", layer), 1, "", operators);
      else
        operators();
      if (job_.reads_layers && layer % 3 == 1) read();
    }
    if (job_.reads_loss) read();
  }

  void kernels_of(int thread, int layer, int count, const std::string& name) {
    for (int i = 0; i < count; ++i)
      launch(thread, name, job_.kernel_us * (1 + 0.3 * (layer % 3)), job_.has_graphs && thread == 1 && i > 0);
  }

  /// Each operator that needs a gradient takes a number; others state that of the next.
  std::string sequence(int batch, int layer) const {
    return fmt::format("\"Sequence number\": {}", batch * (job_.is_compiled ? 1 : job_.layers) + layer);
  }
  std::string shape(const char* text) const {
    return job_.has_shapes ? fmt::format(", \"Input Dims\": {}", text) : "";
  }

  /// PyTorch 1.8 writes the nodes of backward alone.
  template <typename Work>
  void evaluated(const std::string& node, const std::string& arguments, const Work& work) {
    if (!job_.is_old)
      range("cpu_op", "autograd::engine::evaluate_function: " + node, 2, arguments, work);
    else if (node.find("::") != std::string::npos)
      work();
    else
      range("cpu_op", node.ends_with('0') ? node.substr(0, node.size() - 1) : node, 2, arguments, work);
  }

  void accumulate(int layer, bool sends) {
    const auto node = [&] {
      range("cpu_op", "torch::autograd::AccumulateGrad", 2,
            job_.has_shapes ? fmt::format("\"Input Dims\": [[{}, 1000]]", 1000 - turn_) : "", [] {});
    };
    if (job_.names_accumulation) evaluated("torch::autograd::AccumulateGrad", "", node);
    const bool is_end_of_bucket = layer % 2 == 0;
    if (sends && is_end_of_bucket) send(layers() % 2 == 1 && layer == layers() - 1 ? 1 : 2, layer);
  }

  /// An all-reduce or reduce-scatter of this many gradients.
  void send(int gradients, int layer) {
    const bool is_first = layer >= job_.layers - 2;
    const std::optional<double> late_us = is_first ? std::optional(job_.slower_workers_us) : std::nullopt;
    if (job_.zero == MadeJob::Zero::no || job_.zero == MadeJob::Zero::summed)
      collective("allreduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", gradients, 50 + 200.0 * gradients,
                 late_us);
    else
      collective("_reduce_scatter_base", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", gradients,
                 50 + 200.0 * gradients, late_us);
    sent_.push_back(gradients);
  }

  /// Gathers the parameters that every worker has updated, those first that forward uses first.
  void gather() {
    if (job_.zero == MadeJob::Zero::at_once) sent_ = {job_.layers};
    arrivals_.clear();
    for (auto gradients = sent_.rbegin(); gradients != sent_.rend(); ++gradients) {
      collective("_allgather_base", "ncclDevKernel_AllGather_RING_LL", *gradients, 30 + 150.0 * *gradients);
      arrivals_.insert(arrivals_.end(), static_cast<std::size_t>(*gradients), channel_);
    }
    if (!job_.gathers_beside) device_ = std::max(device_, channel_);
  }

  /// A collective of this many gradients or parameters.
  void collective(const char* kind, const char* kernel, int gradients, double us,
                  std::optional<double> late_us = {}) {
    const bool gathers = std::string_view(kernel).find("AllGather") != std::string_view::npos;
    const bool scatters = std::string_view(kernel).find("ReduceScatter") != std::string_view::npos;
    ++correlation_;
    const double at = host_;
    host_ += noisy(job_.launch_us);
    add("cuda_runtime", "cudaLaunchKernelExC", gathers ? 1 : 2, at, host_,
        fmt::format("\"correlation\": {}", correlation_));
    double start = std::max({channel_, device_, at});
    channel_ = start + noisy(us);
    if (late_us) {
      const double late = noisy(*late_us);
      channel_ += late;
      if (job_.rank == 1) start += late;
    }
    const int elements = gradients * 1'000'000;
    add("kernel", fmt::format("{}(ncclDevKernelArgsStorage<4096ul>)", kernel), 20, start, channel_,
        fmt::format("\"correlation\": {}, \"Collective name\": \"{}\", {}\"dtype\": \"Float\", {}",
                    correlation_, kind,
                    job_.has_sizes ? fmt::format("\"In msg nelems\": {}, \"Out msg nelems\": {}, ",
                                                 gathers ? elements / job_.workers : elements,
                                                 scatters ? elements / job_.workers : elements)
                                   : "",
                    group()),
        at);
  }

  void backward(int batch, bool is_last) {
    const bool sends = (is_last || job_.sends_each_batch) && job_.workers > 1;
    sent_.clear();
    host_ += 5;
    if (job_.is_compiled) {
      evaluated("CompiledFunctionBackward", sequence(batch, 0), [&] {
        for (int layer = layers(); layer-- > 0;) kernels_of(2, layer, 2 * job_.kernels, "triton_red_fused");
      });
      for (int layer = layers(); layer-- > 0;) accumulate(layer, sends);
    } else {
      for (int layer = layers(); layer-- > 0;) {
        evaluated("AddmmBackward0", sequence(batch, layer), [&] {
          if (job_.has_batch_norms) exchange(2, "allreduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
          kernels_of(2, layer, 2 * job_.kernels, "gemm_backward");
        });
        accumulate(layer, sends);
      }
    }
    if (sends) device_ = std::max(device_, channel_);
    for (int layer = layers(); sends && job_.copies_gradients && layer-- > 0;)
      range("cpu_op", "torch.distributed.ddp.reducer::copy_bucket_to_grad", 2, "",
            [&] { range("cpu_op", "aten::mul_", 2, "", [&] { launch(2, "copy_kernel", 4); }); });
  }

  void update(int next_batch) {
    const auto kernels = [&] {
      for (int i = 0; i < job_.optimizer_kernels; ++i)
        range("cpu_op", "aten::_foreach_add_", 1, sequence(next_batch, 0),
              [&] { launch(1, "multi_tensor_apply", job_.kernel_us); });
    };
    if (job_.annotates_optimizer)
      range("user_annotation", "Optimizer.step#SGD.step", 1, "", kernels);
    else
      kernels();
  }

  void iteration(int number) {
    const auto body = [&] {
      is_first_ = true;
      host_ += noisy(job_.between_us);
      if (job_.copies_beside) {
        ++correlation_;
        add("cuda_runtime", "cudaMemcpyAsync", 1, host_, host_ + 5,
            fmt::format("\"correlation\": {}", correlation_));
        add("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 9, host_ + 6, host_ + 300,
            fmt::format("\"correlation\": {}, \"bytes\": 1000000", correlation_), host_);
        host_ += 5;
      }
      if (job_.wait == MadeJob::Wait::at_begin) wait_for_device("cudaStreamSynchronize");
      for (int turn = 0; turn < job_.updates; ++turn) {
        turn_ = turn;
        const int first = job_.micro_batches * (number * job_.updates + turn);
        for (int batch = first; batch < first + job_.micro_batches; ++batch) {
          forward(batch);
          backward(batch, batch + 1 == first + job_.micro_batches);
        }
        if (job_.wait == MadeJob::Wait::after_backward) wait_for_device("cudaStreamSynchronize");
        update(first + job_.micro_batches);
        if (job_.zero != MadeJob::Zero::no && job_.workers > 1) gather();
      }
      if (job_.wait == MadeJob::Wait::at_end) wait_for_device("cudaDeviceSynchronize");
    };
    if (job_.has_steps)
      range("user_annotation", fmt::format("ProfilerStep#{}", number), 1, "", body);
    else
      body();
  }

  std::string line(const Event& event) const {
    const auto time = [&](double us) {
      const std::string number =
          job_.truncates_to_us ? fmt::format("{:.0f}", std::floor(us)) : fmt::format("{:.3f}", us);
      return job_.numbers_are_text ? fmt::format("\"{}\"", number) : number;
    };
    constexpr double kStart = 1.7e12;
    const double duration =
        job_.truncates_to_us ? std::floor(event.end) - std::floor(event.start) : event.end - event.start;
    return fmt::format(
        "{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": 5, \"tid\": {}, \"ts\": {}, \"dur\": "
        "{}, "
        "\"args\": {{{}}}}}",
        job_.is_old && event.category == "kernel" ? "Kernel" : event.category, event.name, event.thread,
        time(kStart + event.start), time(duration), event.arguments);
  }

  MadeJob job_;
  std::mt19937_64 bits_;
  double host_ = 0;
  double device_ = 0;
  double channel_ = 0;
  double launched_ = 0;
  double last_host_ = 0;
  double from_ = 0;
  double to_ = 1e300;
  bool is_first_ = false;
  int turn_ = 0;  ///< which update of the iteration
  int broadcasts_ = 0;
  std::vector<double> arrivals_ = {};  ///< of the parameters of layers
  std::vector<int> sent_ = {};         ///< gradients in each bucket of this backward pass
  std::int64_t correlation_ = 0;
  std::int64_t operator_ = 0;
  std::vector<double> begins_;
  std::vector<double> lengths_;
  std::vector<Event> events_;
};

/// A job of any kind; with `waits_amid_passes` also what makes host and device wait there.
inline MadeJob any_job(std::uint64_t seed, bool waits_amid_passes = false) {
  std::mt19937_64 bits(seed);
  const auto below = [&](std::uint64_t count) { return static_cast<int>(bits() % count); };
  const auto rarely = [&] { return below(5) == 0; };
  MadeJob job;
  job.seed = seed;
  job.layers = 3 + below(8);
  job.kernels = 1 + below(4);
  job.launch_us = 5 + below(60);
  job.kernel_us = 5 + below(100);
  job.between_us = below(3) == 0 ? 0 : below(3000);
  job.optimizer_kernels = 1 + below(6);
  job.wait = static_cast<MadeJob::Wait>(below(4));
  job.micro_batches = rarely() ? 2 + below(3) : 1;
  job.noise = 0.001 * below(30);
  job.iterations = 4 + below(4);
  job.has_modules = below(2) == 0;
  job.annotates_optimizer = !rarely();
  job.has_steps = !rarely();
  job.is_old = rarely();
  job.numbers_are_text = rarely();
  job.has_launches = !rarely();
  job.has_graphs = rarely();
  job.is_compiled = rarely();
  job.launches_outside = rarely();
  job.is_hip = rarely();
  job.begins_amid = below(2) == 0;
  job.ends_amid = below(2) == 0;
  job.truncates_to_us = rarely();
  job.copies_beside = rarely();
  if (waits_amid_passes) {
    if (rarely()) job.wait = MadeJob::Wait::never;
    job.reads_loss = below(3) == 0;
    job.reads_layers = rarely();
    job.reading_us = below(200);
    job.sends_buffers = rarely();
    job.copies_gradients = below(2) == 0;
  }
  if (job.micro_batches > 1 && !job.annotates_optimizer)
    job.has_steps = true;  // nothing tells iterations apart
  return job;
}

}  // namespace kineto
