// What CuPy's own kernels need beside cuda_on_cpu.h: NVIDIA's vector and half types, a few functions of the device.
#pragma once
#define CUDA_ON_CPU_TYPES_ELSEWHERE 1
#include <cassert>
#include <cmath>
#include <limits>
#include <vector_types.h>
#include <vector_functions.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include "cuda_on_cpu.h"

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline double sinpi(double x) { return sin(M_PI * fmod(x, 2.0)); }
inline double cospi(double x) { return cos(M_PI * fmod(x, 2.0)); }
inline float sinpif(float x) { return float(sinpi(double(x))); }
inline float cospif(float x) { return float(cospi(double(x))); }
inline float sinpi(float x) { return sinpif(x); }
inline float cospi(float x) { return cospif(x); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}

#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_RTC__ 1
