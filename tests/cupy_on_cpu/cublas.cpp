// The part of cuBLAS that is called here, in plain loops: products of matrices and vectors, for all types, on a stream.
#include "products.h"

namespace {

template <class T, class S>
int batched(void* h, int ta, int tb, int m, int n, int k, const S* alpha, const T* a, int lda, long long sa, const T* b, int ldb,
            long long sb, const S* beta, T* c, int ldc, long long sc, int batch, int dropped = 0) {
  if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m || m < 0 || n < 0 || k < 0) return kInvalid;
  if (bad<T>({a, b, c})) return kInvalid;
  S x = *alpha, y = *beta;
  return submit(h, [=] {
    for (int i = 0; i < batch; ++i) gemm<T, S>(ta, tb, m, n, k, x, a + i * sa, lda, b + i * sb, ldb, y, c + i * sc, ldc, dropped);
    return 0;
  });
}

// Half types that are multiplied into floats: by their floats, which have the same products.
template <class T>
int widened(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int lda, long long sa, const void* b,
            int ldb, long long sb, const void* beta, void* c, int ldc, long long sc, int batch) {
  if (bad<void>({a, b, c})) return kInvalid;
  const float x = *(const float*)alpha, y = *(const float*)beta;
  return submit(h, [=] {
    const auto floats = [](const void* p, size_t count) {
      std::vector<float> out(count);
      for (size_t i = 0; i < count; ++i) out[i] = up(((const T*)p)[i]);
      return out;
    };
    for (int i = 0; i < batch; ++i) {
      const auto first = floats((const T*)a + i * sa, size_t(lda) * (ta ? m : k));
      const auto second = floats((const T*)b + i * sb, size_t(ldb) * (tb ? k : n));
      gemm<float, float>(ta, tb, m, n, k, x, first.data(), lda, second.data(), ldb, y, (float*)c + i * sc, ldc, 0);
    }
    return 0;
  });
}

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API cublasCreate_v2(void** h) { *h = new Handle; return kSuccess; }
API cublasDestroy_v2(void* h) { delete static_cast<Handle*>(h); return kSuccess; }
API cublasSetStream_v2(void* h, void* s) {
  auto* handle = static_cast<Handle*>(h);
  handle->stream = s, handle->workspace = nullptr;  // back to the library's own workspace, as documented
  return kSuccess;
}
API cublasGetStream_v2(void* h, void** s) { *s = static_cast<Handle*>(h)->stream; return kSuccess; }
API cublasSetWorkspace_v2(void* h, void* p, size_t n) {
  if (p && (!cuda_on_cpu_is_device(p) || uintptr_t(p) % 256)) return kInvalid;
  static_cast<Handle*>(h)->workspace = n ? p : nullptr;
  return kSuccess;
}
API cublasSetPointerMode_v2(void* h, int m) { static_cast<Handle*>(h)->pointer_mode = m; return kSuccess; }
API cublasGetPointerMode_v2(void* h, int* m) { *m = static_cast<Handle*>(h)->pointer_mode; return kSuccess; }
API cublasSetMathMode(void* h, int m) { static_cast<Handle*>(h)->math = m; return kSuccess; }
API cublasGetMathMode(void* h, int* m) { *m = static_cast<Handle*>(h)->math; return kSuccess; }
API cublasGetVersion_v2(void*, int* v) { *v = 120900; return kSuccess; }

#define PER_TYPE(X) X(S, float) X(D, double) X(C, c8) X(Z, c16)
#define GEMM(L, T)                                                                                                       \
  API cublas##L##gemm_v2(void* h, int ta, int tb, int m, int n, int k, const T* al, const T* a, int lda, const T* b,     \
                         int ldb, const T* be, T* c, int ldc) {                                                          \
    return batched<T, T>(h, ta, tb, m, n, k, al, a, lda, 0, b, ldb, 0, be, c, ldc, 0, 1);                                \
  }                                                                                                                      \
  API cublas##L##gemmStridedBatched(void* h, int ta, int tb, int m, int n, int k, const T* al, const T* a, int lda,      \
                                    long long sa, const T* b, int ldb, long long sb, const T* be, T* c, int ldc,         \
                                    long long sc, int batch) {                                                           \
    return batched<T, T>(h, ta, tb, m, n, k, al, a, lda, sa, b, ldb, sb, be, c, ldc, sc, batch);                         \
  }                                                                                                                      \
  API cublas##L##gemv_v2(void* h, int t, int m, int n, const T* al, const T* a, int lda, const T* x, int ix,             \
                         const T* be, T* y, int iy) {                                                                    \
    T p = *al, q = *be;                                                                                                  \
    return submit(h, [=] {                                                                                               \
      for (int i = 0; i < (t ? n : m); ++i) {                                                                            \
        T sum{};                                                                                                         \
        for (int l = 0; l < (t ? m : n); ++l)                                                                            \
          sum += conj_if(t ? a[size_t(i) * lda + l] : a[size_t(l) * lda + i], t == 2) * x[size_t(l) * ix];               \
        T& out = y[size_t(i) * iy];                                                                                      \
        out = q == T{} ? p * sum : p * sum + q * out;                                                                    \
      }                                                                                                                  \
      return 0;                                                                                                          \
    });                                                                                                                  \
  }
PER_TYPE(GEMM)

#define DOT(NAME, T, CONJ)                                                                             \
  API NAME(void* h, int n, const T* x, int ix, const T* y, int iy, T* out) {                           \
    return submit(h, [=] {                                                                             \
      T sum{};                                                                                         \
      for (int i = 0; i < n; ++i) sum += conj_if(x[size_t(i) * ix], CONJ) * y[size_t(i) * iy];         \
      *out = sum;                                                                                      \
      return 0;                                                                                        \
    });                                                                                                \
  }
DOT(cublasSdot_v2, float, false) DOT(cublasDdot_v2, double, false)
DOT(cublasCdotu_v2, c8, false) DOT(cublasZdotu_v2, c16, false) DOT(cublasCdotc_v2, c8, true) DOT(cublasZdotc_v2, c16, true)

#define GER(NAME, T, CONJ)                                                                                                  \
  API NAME(void* h, int m, int n, const T* al, const T* x, int ix, const T* y, int iy, T* a, int lda) {                     \
    T p = *al;                                                                                                              \
    return submit(h, [=] {                                                                                                  \
      for (int j = 0; j < n; ++j)                                                                                           \
        for (int i = 0; i < m; ++i) a[size_t(j) * lda + i] += p * x[size_t(i) * ix] * conj_if(y[size_t(j) * iy], CONJ);     \
      return 0;                                                                                                             \
    });                                                                                                                     \
  }
GER(cublasSger_v2, float, false) GER(cublasDger_v2, double, false)
GER(cublasCgeru_v2, c8, false) GER(cublasZgeru_v2, c16, false) GER(cublasCgerc_v2, c8, true) GER(cublasZgerc_v2, c16, true)

API cublasGemmStridedBatchedEx(void* h, int ta, int tb, int m, int n, int k, const void* al, const void* a, int at, int lda,
                               long long sa, const void* b, int bt, int ldb, long long sb, const void* be, void* c, int ct,
                               int ldc, long long sc, int batch, int compute, int) {
  if (at != bt) return kNotSupported;
  if (ct == R32 && at == R16) return widened<__half>(h, ta, tb, m, n, k, al, a, lda, sa, b, ldb, sb, be, c, ldc, sc, batch);
  if (ct == R32 && at == BF16)
    return widened<__nv_bfloat16>(h, ta, tb, m, n, k, al, a, lda, sa, b, ldb, sb, be, c, ldc, sc, batch);
  if (at != ct) return kNotSupported;
  int dropped = compute == 77 ? 13 : compute == 75 ? 16 : 0;  // 32F_FAST_TF32, 32F_FAST_16BF
  bool wide = compute == 70 || compute == 71;  // 64F
  if ((at == R64 || at == C64) != wide) return kNotSupported;
#define CASE(CODE, T, V)                                                                                                    \
  case CODE:                                                                                                                \
    return batched<T, V>(h, ta, tb, m, n, k, (const V*)al, (const T*)a, lda, sa, (const T*)b, ldb, sb, (const V*)be, (T*)c, \
                         ldc, sc, batch, dropped);
  switch (at) {
    CASE(R32, float, float) CASE(R64, double, double) CASE(R16, __half, float) CASE(BF16, __nv_bfloat16, float)
    CASE(C32, c8, c8) CASE(C64, c16, c16)
  }
  return kNotSupported;
}
API cublasGemmEx(void* h, int ta, int tb, int m, int n, int k, const void* al, const void* a, int at, int lda, const void* b,
                 int bt, int ldb, const void* be, void* c, int ct, int ldc, int compute, int algo) {
  return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, al, a, at, lda, 0, b, bt, ldb, 0, be, c, ct, ldc, 0, 1, compute, algo);
}
API cublasSgemmEx(void* h, int ta, int tb, int m, int n, int k, const float* al, const void* a, int at, int lda, const void* b,
                  int bt, int ldb, const float* be, void* c, int ct, int ldc) {
  return cublasGemmEx(h, ta, tb, m, n, k, al, a, at, lda, b, bt, ldb, be, c, ct, ldc, 68, -1);
}

// -- factorisations of small matrices, many at a time (column-major, pivots count from 1)

namespace {
template <class T> double size_of(T x) { return std::abs(x); }

template <class T> int lu(int n, T* a, int lda, int* pivots) {
  int info = 0;
  for (int j = 0; j < n; ++j) {
    int p = j;
    for (int i = j + 1; i < n; ++i)
      if (pivots && size_of(a[size_t(j) * lda + i]) > size_of(a[size_t(j) * lda + p])) p = i;
    if (pivots) pivots[j] = p + 1;
    for (int c = 0; c < n; ++c) std::swap(a[size_t(c) * lda + j], a[size_t(c) * lda + p]);
    T d = a[size_t(j) * lda + j];
    if (d == T{}) {
      if (!info) info = j + 1;
      continue;
    }
    for (int i = j + 1; i < n; ++i) {
      T f = a[size_t(j) * lda + i] /= d;
      for (int c = j + 1; c < n; ++c) a[size_t(c) * lda + i] -= f * a[size_t(c) * lda + j];
    }
  }
  return info;
}
template <class T> void lu_solve(int n, const T* a, int lda, const int* pivots, T* b) {
  for (int i = 0; pivots && i < n; ++i) std::swap(b[i], b[pivots[i] - 1]);
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < i; ++k) b[i] -= a[size_t(k) * lda + i] * b[k];
  for (int i = n - 1; i >= 0; --i) {
    for (int k = i + 1; k < n; ++k) b[i] -= a[size_t(k) * lda + i] * b[k];
    b[i] /= a[size_t(i) * lda + i];
  }
}
}  // namespace

#define BATCHED(L, T)                                                                                                      \
  API cublas##L##getrfBatched(void* h, int n, T* const* a, int lda, int* pivots, int* info, int batch) {                   \
    return submit(h, [=] {                                                                                                 \
      for (int i = 0; i < batch; ++i) info[i] = lu(n, a[i], lda, pivots ? pivots + size_t(i) * n : nullptr);               \
      return 0;                                                                                                            \
    });                                                                                                                    \
  }                                                                                                                        \
  API cublas##L##getrsBatched(void* h, int trans, int n, int m, const T* const* a, int lda, const int* pivots,             \
                              T* const* b, int ldb, int* info, int batch) {                                                \
    if (trans) return kNotSupported;                                                                                       \
    *info = 0; /* in host memory */                                                                                        \
    return submit(h, [=] {                                                                                                 \
      for (int i = 0; i < batch; ++i)                                                                                      \
        for (int j = 0; j < m; ++j)                                                                                        \
          lu_solve(n, a[i], lda, pivots ? pivots + size_t(i) * n : nullptr, b[i] + size_t(j) * ldb);                       \
      return 0;                                                                                                            \
    });                                                                                                                    \
  }                                                                                                                        \
  API cublas##L##getriBatched(void* h, int n, const T* const* a, int lda, const int* pivots, T* const* c, int ldc,         \
                              int* info, int batch) {                                                                      \
    return submit(h, [=] {                                                                                                 \
      for (int i = 0; i < batch; ++i) {                                                                                    \
        info[i] = 0;                                                                                                       \
        for (int j = 0; j < n; ++j) {                                                                                      \
          T* column = c[i] + size_t(j) * ldc;                                                                              \
          for (int k = 0; k < n; ++k) column[k] = k == j ? T(1) : T(0);                                                    \
          lu_solve(n, a[i], lda, pivots ? pivots + size_t(i) * n : nullptr, column);                                       \
        }                                                                                                                  \
      }                                                                                                                    \
      return 0;                                                                                                            \
    });                                                                                                                    \
  }                                                                                                                        \
  API cublas##L##gemmBatched(void* h, int ta, int tb, int m, int n, int k, const T* al, const T* const* a, int lda,        \
                             const T* const* b, int ldb, const T* be, T* const* c, int ldc, int batch) {                   \
    T x = *al, y = *be;                                                                                                    \
    return submit(h, [=] {                                                                                                 \
      for (int i = 0; i < batch; ++i) gemm<T, T>(ta, tb, m, n, k, x, a[i], lda, b[i], ldb, y, c[i], ldc);                  \
      return 0;                                                                                                            \
    });                                                                                                                    \
  }
PER_TYPE(BATCHED)

#define TRSM(L, T)                                                                                                          \
  API cublas##L##trsm_v2(void* h, int side, int uplo, int trans, int diag, int m, int n, const T* al, const T* a, int lda,  \
                         T* b, int ldb) {                                                                                   \
    T alpha = *al;                                                                                                          \
    return submit(h, [=] {                                                                                                  \
      int size = side == 0 ? m : n, others = side == 0 ? n : m; /* op(A) X = alpha B, or X op(A) = alpha B */                \
      bool flip = (trans != 0) != (side == 1);                                                                              \
      auto at = [=](int i, int k) {                                                                                         \
        T v = flip ? a[size_t(i) * lda + k] : a[size_t(k) * lda + i];                                                       \
        return conj_if(v, trans == 2);                                                                                      \
      };                                                                                                                    \
      bool lower = (uplo == 0) != flip;                                                                                     \
      for (int o = 0; o < others; ++o) {                                                                                    \
        auto x = [=](int i) -> T& { return side == 0 ? b[size_t(o) * ldb + i] : b[size_t(i) * ldb + o]; };                   \
        for (int s = 0; s < size; ++s) {                                                                                    \
          int i = lower ? s : size - 1 - s;                                                                                 \
          T sum = alpha * x(i);                                                                                             \
          for (int q = 0; q < s; ++q) {                                                                                     \
            int k = lower ? q : size - 1 - q;                                                                               \
            sum -= at(i, k) * x(k);                                                                                         \
          }                                                                                                                 \
          x(i) = diag ? sum : sum / at(i, i);                                                                               \
        }                                                                                                                   \
      }                                                                                                                     \
      return 0;                                                                                                             \
    });                                                                                                                     \
  }
PER_TYPE(TRSM)
