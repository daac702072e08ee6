#pragma once

// Compiles a function for several instruction sets; the best one is selected at run time. The kernel is compiled with
// -ffp-contract=off (no fused multiply-add), so that all of them give the same result. AVX-512 is left out: on a Xeon
// it made short loops between other code a fifth slower. Clang does not support vectors (lanes.h) in clones.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define OPO_CMAB_VECTORIZED __attribute__((target_clones("avx2", "default")))
#else
#define OPO_CMAB_VECTORIZED
#endif
