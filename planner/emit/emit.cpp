#include "planner/emit/emit.hpp"

#include <vector>

#include "planner/job/registry.hpp"

namespace planner {

// To add an emitter: write emitters/<name>.cpp and list it here.
Emitter ddp_emitter();
Emitter horovod_emitter();
Emitter deepspeed_emitter();
Emitter megatron_emitter();
Emitter fsdp_emitter();
Emitter comm_hook_emitter();
Emitter trainers_emitter();
Emitter inductor_emitter();
Emitter json_emitter();
Emitter nccl_tuner_emitter();

std::span<const Emitter> emitters() {
  static const std::vector<Emitter> all = {
      ddp_emitter(),     comm_hook_emitter(), trainers_emitter(), fsdp_emitter(), inductor_emitter(),
      horovod_emitter(), deepspeed_emitter(), megatron_emitter(), json_emitter(), nccl_tuner_emitter(),
  };
  return all;
}

Emission emit(std::string_view target, const EmitRequest& request) {
  return entry(emitters(), target).emit(request);
}

}  // namespace planner
