// What the table of backends says of the GPU; where this was built without CUDA, no_backend.cpp's.

#pragma once

#include "profiler/backend.hpp"

namespace profiler::cuda {

void check_backend(const SessionWishes& wishes);
double backend_bytes(const ModelWork& work, double batch_size, const SessionWishes& wishes);
std::optional<double> backend_free_bytes();
std::unique_ptr<Session> open_backend(const ModelWork& work, const SessionWishes& wishes);
Verdict verify_backend(const ModelWork& work, const SessionWishes& wishes);

}  // namespace profiler::cuda
