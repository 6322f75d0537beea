// Names the namespace of the instruction set a kernel file is compiled for. Every kernel file is compiled once per instruction set, so
// anything it defines must live in this namespace or have internal linkage: two variants of one inline function must never be merged.
// The portable variant, which there is on every machine, has the file's decode function too: MILLRACE_DECODES.
#pragma once

#if defined(MILLRACE_ISA_AVX512BF16)
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
