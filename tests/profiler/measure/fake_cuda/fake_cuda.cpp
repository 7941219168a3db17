// As much of the CUDA runtime and of NCCL as measuring calls, on host memory, for tests on hosts without
// GPUs: ranks are processes that share a file, sums are real, and FAKE_NCCL=FAULT:RANK breaks one of them.
// FAKE_CUDA_DEVICES says how many devices there are (2).

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kSlot = std::size_t{4} << 20;  // bytes of a rank at most
constexpr int kMaxRanks = 16;

struct Header {
  std::atomic<int> opened;
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> round;
  int device[kMaxRanks];
  char host[kMaxRanks][64];
};

int current_device = 0;
bool stream_never_ends = false;
bool log_is_on = false;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_broken(const char* fault, int rank) {
  return variable("FAKE_NCCL") == std::string(fault) + ':' + std::to_string(rank);
}

}  // namespace

struct ncclComm {
  int rank = 0;
  int size = 1;
  Header* header = nullptr;
  char* slots = nullptr;
  const void* sends = nullptr;  // of the group that is open
  void* receives = nullptr;
  std::size_t bytes = 0;

  float* slot(int of) const { return reinterpret_cast<float*>(slots + static_cast<std::size_t>(of) * kSlot); }

  void meet() const {
    const std::uint32_t round = header->round;
    if (++header->arrived == static_cast<std::uint32_t>(size)) {
      header->arrived = 0;
      ++header->round;
    }
    while (header->round == round) ::usleep(20);
  }
};

namespace {

ncclComm* in_group = nullptr;

/// What goes wrong before anything is done.
ncclResult_t begin(const char* name, std::size_t bytes, const ncclComm& comm) {
  if (comm.rank == 0 && log_is_on) {
    if (std::FILE* file = std::fopen(variable("NCCL_DEBUG_FILE").c_str(), "a")) {
      const bool is_small = bytes < 65536;
      const std::string forced = variable("NCCL_ALGO");
      (void)std::fprintf(
          file, "host:1:1 [0] NCCL INFO %s: %zu Bytes -> Algo %s proto %s channel{Lo..Hi}={0..1}\n", name,
          bytes, !forced.empty() ? forced.c_str() : (is_small ? "TREE" : "RING"), is_small ? "LL" : "SIMPLE");
      (void)std::fclose(file);
    }
  }
  if (is_broken("error", comm.rank)) return ncclSystemError;
  if (is_broken("die", comm.rank)) (void)std::raise(SIGKILL);
  if (is_broken("async", comm.rank) || is_broken("stream", comm.rank)) stream_never_ends = true;
  while (is_broken("block", comm.rank)) ::sleep(1);
  return bytes > kSlot ? ncclInvalidArgument : ncclSuccess;
}

template <typename Work>
ncclResult_t together(const char* name, const void* send, std::size_t bytes, ncclComm& comm,
                      const Work& work) {
  if (const ncclResult_t status = begin(name, bytes, comm); status != ncclSuccess) return status;
  if (stream_never_ends) return ncclSuccess;  // the others wait for this one
  std::memcpy(comm.slot(comm.rank), send, bytes);
  comm.meet();
  work();
  comm.meet();
  return ncclSuccess;
}

float sum(const ncclComm& comm, std::size_t at) {
  float out = 0;
  for (int rank = 0; rank < comm.size; ++rank) out += comm.slot(rank)[at];
  return out;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const std::string devices = variable("FAKE_CUDA_DEVICES");
  *count = devices.empty() ? 2 : std::stoi(devices);
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return current_device = device, cudaSuccess; }
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  (void)std::snprintf(id, static_cast<std::size_t>(length), "0000:0%d:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
  std::strcpy(properties->name, "Fake GPU");
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorNoDevice ? "no CUDA-capable device is detected" : "an error";
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* data) { return std::free(data), cudaSuccess; }
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return *stream = nullptr, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return stream_never_ends ? cudaErrorNotReady : cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

ncclResult_t ncclGetVersion(int* version) { return *version = 22809, ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t status) {
  return status == ncclRemoteError ? "remote process exited or there was a network error"
                                   : "unhandled system error";
}
void ncclResetDebugInit() { log_is_on = variable("NCCL_DEBUG") == "INFO"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::string name = "/tmp/fake-nccl-XXXXXX";
  const int file = ::mkstemp(name.data());
  const bool is_good =
      file >= 0 && ::ftruncate(file, static_cast<off_t>(sizeof(Header) + kMaxRanks * kSlot)) == 0;
  ::close(file);
  std::memset(id, 0, sizeof *id);
  std::strcpy(id->internal, name.c_str());
  return is_good ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  const int file = ::open(id.internal, O_RDWR | O_CLOEXEC);
  if (file < 0) return ncclSystemError;
  void* memory =
      ::mmap(nullptr, sizeof(Header) + kMaxRanks * kSlot, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (++static_cast<Header*>(memory)->opened == size) ::unlink(id.internal);
  while (is_broken("init", rank)) ::sleep(1);
  auto* out = new ncclComm;
  out->rank = rank;
  out->size = size;
  out->header = static_cast<Header*>(memory);
  out->slots = static_cast<char*>(memory) + sizeof(Header);
  out->header->device[rank] = current_device;
  std::strncpy(out->header->host[rank], variable("NCCL_HOSTID").c_str(), 63);
  out->meet();
  for (int other = 0; other < rank; ++other)  // as NCCL 2.28 does
    if (out->header->device[other] == current_device &&
        std::strcmp(out->header->host[other], out->header->host[rank]) == 0)
      return ncclInvalidUsage;
  *comm = out;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return delete comm, ncclSuccess; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* status) {
  *status = is_broken("async", comm->rank) ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t) {
  return together("AllReduce", send, count * sizeof(float), *comm, [&] {
    auto* const out = static_cast<float*>(receive);
    for (std::size_t i = 0; i < count; ++i) out[i] = sum(*comm, i);
    if (is_broken("wrong", comm->rank)) out[count / 2] += 1;
  });
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t) {
  return together(
      "ReduceScatter", send, count * sizeof(float) * static_cast<std::size_t>(comm->size), *comm, [&] {
        for (std::size_t i = 0; i < count; ++i)
          static_cast<float*>(receive)[i] = sum(*comm, static_cast<std::size_t>(comm->rank) * count + i);
        if (is_broken("wrong", comm->rank)) static_cast<float*>(receive)[0] += 1;
      });
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t,
                           ncclComm_t comm, cudaStream_t) {
  return together("AllGather", send, count * sizeof(float), *comm, [&] {
    for (int rank = 0; rank < comm->size; ++rank)
      std::memcpy(static_cast<float*>(receive) + static_cast<std::size_t>(rank) * count, comm->slot(rank),
                  count * sizeof(float));
    if (is_broken("gather", comm->rank)) static_cast<float*>(receive)[0] += 1;
  });
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t, int root,
                           ncclComm_t comm, cudaStream_t) {
  return together("Broadcast", send, count * sizeof(float), *comm,
                  [&] { std::memcpy(receive, comm->slot(root), count * sizeof(float)); });
}
ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t, int, ncclComm_t comm,
                      cudaStream_t) {
  in_group = comm;
  comm->sends = send;
  comm->bytes = count * sizeof(float);
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* receive, std::size_t, ncclDataType_t, int, ncclComm_t comm, cudaStream_t) {
  comm->receives = receive;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  ncclComm& comm = *in_group;
  return together("SendRecv", comm.sends, comm.bytes, comm, [&] {
    std::memcpy(comm.receives, comm.slot((comm.rank + comm.size - 1) % comm.size), comm.bytes);
  });
}

}  // extern "C"
