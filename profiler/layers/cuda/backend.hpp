// The GPU entry in the table of backends; without CUDA, no_backend.cpp implements it.

#pragma once

#include "profiler/layers/backend.hpp"

namespace profiler::cuda {

void check_backend(const SessionOptions& options);
double backend_bytes(const ModelWork& work, double batch_size, const SessionOptions& options);
std::optional<double> backend_free_bytes();
std::unique_ptr<Session> open_backend(const ModelWork& work, const SessionOptions& options);
Verdict verify_backend(const ModelWork& work, const SessionOptions& options);

}  // namespace profiler::cuda
