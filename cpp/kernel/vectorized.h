#pragma once

// Marks a function to be compiled for several instruction sets, the best taken at run time. None may
// fuse a multiplication and an addition (the kernel is compiled with -ffp-contract=off), so that all of them give the
// same result. AVX-512 is not among them: on a Xeon it made short loops between other code slower by a fifth. Clang
// does not take vectors (lanes.h) in clones.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define OPO_CMAB_VECTORIZED __attribute__((target_clones("avx2", "default")))
#else
#define OPO_CMAB_VECTORIZED
#endif
