// Marks loops that are compiled for several widths of vector instructions; the processor chooses when the
// program starts. All variants compute the same bits: operations keep their order, and none are fused.

#pragma once

// clang 14 chooses a variant that the processor does not have.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FUSEWISE_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FUSEWISE_WIDE
#endif
