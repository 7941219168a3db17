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
Emitter json_emitter();
Emitter nccl_tuner_emitter();

std::span<const Emitter> emitters() {
  static const std::vector<Emitter> all = {
      ddp_emitter(),  horovod_emitter(), deepspeed_emitter(),  megatron_emitter(),
      fsdp_emitter(), json_emitter(),    nccl_tuner_emitter(),
  };
  return all;
}

Emission emit(std::string_view target, const EmitRequest& request) {
  return entry(emitters(), target).emit(request);
}

}  // namespace planner
