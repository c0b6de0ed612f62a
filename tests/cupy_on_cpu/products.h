// What cublas.cpp and cublaslt.cpp share: handles, types, and a product of matrices in plain loops.
#pragma once
#include <complex>
#include <functional>
#include <string.h>
#include <type_traits>
#include <vector>

#include <vector_types.h>
#include <vector_functions.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" int cuda_on_cpu_enqueue(void* stream, std::function<int()>* work);  // takes `work` over
extern "C" int cuda_on_cpu_is_capturing(void* stream);
extern "C" int cuda_on_cpu_is_device(const void* p);
extern "C" int cuda_on_cpu_missing(const char* name);

namespace {

using c8 = std::complex<float>;
using c16 = std::complex<double>;
enum { kSuccess = 0, kNotInitialized = 1, kInvalid = 7, kInternal = 14, kNotSupported = 15 };
enum { R32 = 0, R64 = 1, R16 = 2, C32 = 4, C64 = 5, BF16 = 14 };

struct Handle { unsigned magic = 0xb1a5; void* stream = nullptr; void* workspace = nullptr; int pointer_mode = 0, math = 0; };

template <class T> struct Compute { using type = T; };
template <> struct Compute<__half> { using type = float; };
template <> struct Compute<__nv_bfloat16> { using type = float; };

template <class T> auto up(T x) {
  if constexpr (std::is_same_v<T, __half>) return __half2float(x);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __bfloat162float(x);
  else return x;
}
template <class T, class V> T down(V x) {
  if constexpr (std::is_same_v<T, __half>) return __float2half(x);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16(x);
  else return T(x);
}
template <class T> T conj_if(T x, bool c) {
  if constexpr (std::is_same_v<T, c8> || std::is_same_v<T, c16>) return c ? std::conj(x) : x;
  else return x;
}

// What the tensor cores read of a float: 10 or 7 bits of its fraction, rounded to the nearest.
float rounded(float x, int dropped) {
  unsigned bits;
  memcpy(&bits, &x, 4);
  bits = (bits + (1u << (dropped - 1))) & ~((1u << dropped) - 1);
  memcpy(&x, &bits, 4);
  return x;
}
template <class T> T seen(T x, int dropped) {
  if constexpr (std::is_same_v<T, float>) return dropped ? rounded(x, dropped) : x;
  else if constexpr (std::is_same_v<T, c8>) return dropped ? c8(rounded(x.real(), dropped), rounded(x.imag(), dropped)) : x;
  else return x;
}

// Column-major C = alpha op(A) op(B) + beta C, and a bias for each row. dropped: how many bits of a float's fraction are
// not used.
template <class T, class S>
void gemm(int ta, int tb, int m, int n, int k, S alpha, const T* a, int lda, const T* b, int ldb, S beta, T* c, int ldc,
          int dropped = 0, const T* bias = nullptr) {
  using V = typename Compute<T>::type;
  std::vector<V> rows(size_t(m) * k);
  for (int i = 0; i < m; ++i)
    for (int l = 0; l < k; ++l) 
      rows[size_t(i) * k + l] = seen(conj_if<V>(up(ta ? a[size_t(i) * lda + l] : a[size_t(l) * lda + i]), ta == 2), dropped);
  std::vector<V> column(k);
  for (int j = 0; j < n; ++j) {
    for (int l = 0; l < k; ++l) 
      column[l] = seen(conj_if<V>(up(tb ? b[size_t(l) * ldb + j] : b[size_t(j) * ldb + l]), tb == 2), dropped);
    for (int i = 0; i < m; ++i) {
      V sum{};
      const V* row = &rows[size_t(i) * k];
      for (int l = 0; l < k; ++l) sum += row[l] * column[l];
      T& out = c[size_t(j) * ldc + i];
      V value = V(alpha) * sum;
      if (beta != S{}) value += V(beta) * V(up(out));
      if (bias) value += up(bias[i]);
      out = down<T>(value);
    }
  }
}

int submit(void* handle, std::function<int()> work) {
  auto* h = static_cast<Handle*>(handle);
  if (!h || h->magic != 0xb1a5) return kNotInitialized;
  if (cuda_on_cpu_is_capturing(h->stream) && !h->workspace) return kInternal;  // it would have to allocate
  return cuda_on_cpu_enqueue(h->stream, new std::function<int()>(std::move(work))) ? kInternal : kSuccess;
}

template <class T> bool bad(std::initializer_list<const T*> pointers) {
  for (auto p : pointers)
    if (p && !cuda_on_cpu_is_device(p)) return true;
  return false;
}

}  // namespace
