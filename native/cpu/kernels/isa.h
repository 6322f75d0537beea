// Names the namespace of the instruction set a kernel file is compiled for. Every kernel file is compiled once per
// instruction set, so anything it defines must live in this namespace or have internal linkage: two variants of one
// inline function must never be merged. The portable variant has the file's decode function too: MILLRACE_DECODES. A
// first start compiles these functions alone (MILLRACE_ONLY_DECODES) where the CPU has better kernels.
//
// The instruction sets above avx512 add products of bytes, of bfloat16 numbers and of tiles of them, which linear
// layers alone use. So only the files of linear layers are compiled for them (VARIANTS in scripts/build-native.js), and
// the code of avx512 does the rest: MILLRACE_COMMON_ISA.
#pragma once

#if defined(MILLRACE_ISA_AMX)
#define MILLRACE_ISA amx
#define MILLRACE_ISA_AVX512BF16
#define MILLRACE_ISA_AVX512VNNI
#define MILLRACE_ISA_AVX512
#define MILLRACE_ISA_AVX2
#elif defined(MILLRACE_ISA_AVX512BF16)
#define MILLRACE_ISA avx512bf16
#define MILLRACE_ISA_AVX512VNNI
#define MILLRACE_ISA_AVX512
#define MILLRACE_ISA_AVX2
#elif defined(MILLRACE_ISA_AVX512VNNI)
#define MILLRACE_ISA avx512vnni
#define MILLRACE_ISA_AVX512
#define MILLRACE_ISA_AVX2
#elif defined(MILLRACE_ISA_AVX512)
#define MILLRACE_ISA avx512
#define MILLRACE_ISA_AVX2
#elif defined(MILLRACE_ISA_AVX2)
#define MILLRACE_ISA avx2
#elif defined(MILLRACE_ISA_NEONDOT)
#define MILLRACE_ISA neondot
#define MILLRACE_ISA_NEON
#elif defined(MILLRACE_ISA_NEON)
#define MILLRACE_ISA neon
#else
#define MILLRACE_ISA portable
#define MILLRACE_DECODES
#endif

// The instruction sets whose dequantize.cc, linear_packed.cc and linear_packed_16bit.cc (with linear_packed_bfloats.cc)
// this one calls.
#if defined(MILLRACE_ISA_AVX512VNNI)
#define MILLRACE_COMMON_ISA avx512
#define MILLRACE_BYTES_ISA avx512vnni
#else
#define MILLRACE_COMMON_ISA MILLRACE_ISA
#define MILLRACE_BYTES_ISA MILLRACE_ISA
#endif
#if defined(MILLRACE_ISA_AVX512BF16)
#define MILLRACE_FLOATS_ISA avx512bf16
#elif defined(MILLRACE_ISA_AVX512VNNI)
#define MILLRACE_FLOATS_ISA avx512
#else
#define MILLRACE_FLOATS_ISA MILLRACE_ISA
#endif
