// The part of cuSOLVER that CuPy's linalg calls, by the LAPACK that NumPy brings along.
#include <complex>
#include <dlfcn.h>
#include <functional>
#include <stdint.h>
#include <string>
#include <vector>

extern "C" int cuda_on_cpu_enqueue(void* stream, std::function<int()>* work);
extern "C" int cuda_on_cpu_is_device(const void* p);

namespace {
using c8 = std::complex<float>;
using c16 = std::complex<double>;
using Int = int64_t;  // NumPy's LAPACK has wide integers

struct Handle { void* stream; };
void* lapack;

// Calls a Fortran function: numbers and characters by address, lengths of characters behind.
template <class... A> void call(char letter, const char* name, A... arguments) {
  std::string symbol = std::string("scipy_") + letter + name + "_64_";
  auto f = reinterpret_cast<void (*)(A..., size_t, size_t, size_t)>(dlsym(lapack, symbol.c_str()));
  f(arguments..., 1, 1, 1);
}
template <class T> constexpr char letter() {
  if constexpr (std::is_same_v<T, float>) return 's';
  else if constexpr (std::is_same_v<T, double>) return 'd';
  else if constexpr (std::is_same_v<T, c8>) return 'c';
  else return 'z';
}
template <class T> struct RealOf { using type = T; };
template <class T> struct RealOf<std::complex<T>> { using type = T; };
template <class T> using Real = typename RealOf<T>::type;
template <class T> constexpr bool is_complex = !std::is_same_v<T, Real<T>>;

int submit(void* h, std::function<void()> work) {
  return cuda_on_cpu_enqueue(static_cast<Handle*>(h)->stream, new std::function<int()>([work] { work(); return 0; })) ? 6 : 0;
}
char triangle(int uplo) { return uplo == 0 ? 'L' : 'U'; }

template <class T> int potrf(int uplo, int n, T* a, int lda) {
  char u = triangle(uplo);
  Int n_ = n, lda_ = lda, info = 0;
  call(letter<T>(), "potrf", &u, &n_, a, &lda_, &info);
  return int(info);
}
template <class T> int potrs(int uplo, int n, int m, const T* a, int lda, T* b, int ldb) {
  char u = triangle(uplo);
  Int n_ = n, m_ = m, lda_ = lda, ldb_ = ldb, info = 0;
  call(letter<T>(), "potrs", &u, &n_, &m_, a, &lda_, b, &ldb_, &info);
  return int(info);
}
template <class T> int getrf(int m, int n, T* a, int lda, int* pivots) {
  std::vector<Int> p(std::min(m, n) + 1);
  Int m_ = m, n_ = n, lda_ = lda, info = 0;
  call(letter<T>(), "getrf", &m_, &n_, a, &lda_, p.data(), &info);
  if (pivots) std::copy(p.begin(), p.begin() + std::min(m, n), pivots);
  return int(info);
}
template <class T> int getrs(int trans, int n, int m, const T* a, int lda, const int* pivots, T* b, int ldb) {
  std::vector<Int> p(pivots, pivots + n);
  char t = trans == 0 ? 'N' : trans == 1 ? 'T' : 'C';
  Int n_ = n, m_ = m, lda_ = lda, ldb_ = ldb, info = 0;
  call(letter<T>(), "getrs", &t, &n_, &m_, a, &lda_, p.data(), b, &ldb_, &info);
  return int(info);
}
template <class T> int geqrf(int m, int n, T* a, int lda, T* tau) {
  Int m_ = m, n_ = n, lda_ = lda, size = 64 * std::max(n, 1), info = 0;
  std::vector<T> work(size);
  call(letter<T>(), "geqrf", &m_, &n_, a, &lda_, tau, work.data(), &size, &info);
  return int(info);
}
template <class T> int orgqr(int m, int n, int k, T* a, int lda, const T* tau) {
  Int m_ = m, n_ = n, k_ = k, lda_ = lda, size = 64 * std::max(n, 1), info = 0;
  std::vector<T> work(size);
  call(letter<T>(), is_complex<T> ? "ungqr" : "orgqr", &m_, &n_, &k_, a, &lda_, tau, work.data(), &size, &info);
  return int(info);
}
template <class T> int gesvd(char ju, char jv, int m, int n, T* a, int lda, Real<T>* s, T* u, int ldu, T* v, int ldv) {
  Int m_ = m, n_ = n, lda_ = lda, ldu_ = ldu, ldv_ = ldv, size = 64 * (m + n + 1), info = 0;
  std::vector<T> work(size);
  std::vector<Real<T>> real(5 * std::min(m, n) + 1);
  if constexpr (is_complex<T>)
    call(letter<T>(), "gesvd", &ju, &jv, &m_, &n_, a, &lda_, s, u, &ldu_, v, &ldv_, work.data(), &size, real.data(), &info);
  else
    call(letter<T>(), "gesvd", &ju, &jv, &m_, &n_, a, &lda_, s, u, &ldu_, v, &ldv_, work.data(), &size, &info);
  return int(info);
}
template <class T> int syevd(int vectors, int uplo, Int n, T* a, Int lda, Real<T>* w) {
  char j = vectors ? 'V' : 'N', u = triangle(uplo);
  Int size = 2 * n * n + 6 * n + 64, integers = 5 * n + 8, reals = 2 * n * n + 5 * n + 8, info = 0;
  std::vector<T> work(size);
  std::vector<Real<T>> real(reals);
  std::vector<Int> whole(integers);
  if constexpr (is_complex<T>)
    call(letter<T>(), "heevd", &j, &u, &n, a, &lda, w, work.data(), &size, real.data(), &reals, whole.data(), &integers, &info);
  else
    call(letter<T>(), "syevd", &j, &u, &n, a, &lda, w, work.data(), &size, whole.data(), &integers, &info);
  return int(info);
}
// Eigenvalues are complex; eigenvectors of a real matrix are pairs of real columns, as in LAPACK.
template <class T> int geev(int vectors, Int n, T* a, Int lda, std::complex<Real<T>>* w, T* v, Int ldv) {
  char none = 'N', right = vectors ? 'V' : 'N';
  Int one = 1, size = 8 * n + 64, info = 0;
  std::vector<T> work(size);
  if constexpr (is_complex<T>) {
    std::vector<Real<T>> real(2 * n + 1);
    call(letter<T>(), "geev", &none, &right, &n, a, &lda, w, (T*)nullptr, &one, v, &ldv, work.data(), &size, real.data(), &info);
  } else {
    std::vector<T> re(n + 1), im(n + 1);
    call(letter<T>(), "geev", &none, &right, &n, a, &lda, re.data(), im.data(), (T*)nullptr, &one, v, &ldv, work.data(), &size, &info);
    for (Int i = 0; i < n; ++i) w[i] = {re[i], im[i]};
  }
  return int(info);
}
// Jacobi's method gives V, not its conjugate transpose, and takes a wide matrix as it is.
template <class T> int gesvdj(bool vectors, bool thin, int m, int n, T* a, int lda, Real<T>* s, T* u, int ldu, T* v, int ldv) {
  int k = std::min(m, n), rows = thin ? k : n;
  std::vector<T> vh(size_t(rows) * n + 1);
  char job = !vectors ? 'N' : thin ? 'S' : 'A';
  int info = gesvd(job, job, m, n, a, lda, s, vectors ? u : nullptr, std::max(ldu, 1), vh.data(), std::max(rows, 1));
  for (int i = 0; vectors && i < rows; ++i)
    for (int j = 0; j < n; ++j) {
      T x = vh[size_t(j) * rows + i];
      if constexpr (is_complex<T>) x = std::conj(x);
      v[size_t(i) * ldv + j] = x;
    }
  return info;
}
}  // namespace

#define API extern "C" __attribute__((visibility("default"))) int
API cuda_on_cpu_lapack(const char* path) { return (lapack = dlopen(path, RTLD_NOW)) == nullptr; }
API cusolverDnCreate(void** h) { *h = new Handle{}; return 0; }
API cusolverDnDestroy(void* h) { delete static_cast<Handle*>(h); return 0; }
API cusolverDnSetStream(void* h, void* s) { static_cast<Handle*>(h)->stream = s; return 0; }
API cusolverDnGetStream(void* h, void** s) { *s = static_cast<Handle*>(h)->stream; return 0; }
API cusolverDnCreateParams(void** p) { *p = new int(0); return 0; }
API cusolverDnDestroyParams(void* p) { delete static_cast<int*>(p); return 0; }
API cusolverGetProperty(int which, int* v) { *v = which == 0 ? 11 : 7; return 0; }

#define SIZE(NAME, ...) API NAME(__VA_ARGS__) { *size = 64; return 0; }
#define COMMON(L, T)                                                                                                              \
  SIZE(cusolverDn##L##potrf_bufferSize, void*, int, int, T*, int, int* size)                                                      \
  API cusolverDn##L##potrf(void* h, int uplo, int n, T* a, int lda, T*, int, int* info) {                                         \
    return submit(h, [=] { *info = potrf(uplo, n, a, lda); });                                                                    \
  }                                                                                                                               \
  API cusolverDn##L##potrfBatched(void* h, int uplo, int n, T** a, int lda, int* info, int batch) {                               \
    return submit(h, [=] { for (int i = 0; i < batch; ++i) info[i] = potrf(uplo, n, a[i], lda); });                               \
  }                                                                                                                               \
  API cusolverDn##L##potrs(void* h, int uplo, int n, int m, const T* a, int lda, T* b, int ldb, int* info) {                      \
    return submit(h, [=] { *info = potrs(uplo, n, m, a, lda, b, ldb); });                                                         \
  }                                                                                                                               \
  API cusolverDn##L##potrsBatched(void* h, int uplo, int n, int m, T** a, int lda, T** b, int ldb, int* info, int batch) {        \
    return submit(h, [=] { for (int i = 0; i < batch; ++i) *info = potrs(uplo, n, m, a[i], lda, b[i], ldb); });                   \
  }                                                                                                                               \
  SIZE(cusolverDn##L##getrf_bufferSize, void*, int, int, T*, int, int* size)                                                      \
  API cusolverDn##L##getrf(void* h, int m, int n, T* a, int lda, T*, int* pivots, int* info) {                                    \
    return submit(h, [=] { *info = getrf(m, n, a, lda, pivots); });                                                               \
  }                                                                                                                               \
  API cusolverDn##L##getrs(void* h, int t, int n, int m, const T* a, int lda, const int* pivots, T* b, int ldb, int* info) {      \
    return submit(h, [=] { *info = getrs(t, n, m, a, lda, pivots, b, ldb); });                                                    \
  }                                                                                                                               \
  SIZE(cusolverDn##L##geqrf_bufferSize, void*, int, int, T*, int, int* size)                                                      \
  API cusolverDn##L##geqrf(void* h, int m, int n, T* a, int lda, T* tau, T*, int, int* info) {                                    \
    return submit(h, [=] { *info = geqrf(m, n, a, lda, tau); });                                                                  \
  }                                                                                                                               \
  SIZE(cusolverDn##L##gesvd_bufferSize, void*, int, int, int* size)                                                               \
  API cusolverDn##L##gesvd(void* h, signed char ju, signed char jv, int m, int n, T* a, int lda, Real<T>* s, T* u, int ldu,       \
                           T* v, int ldv, T*, int, Real<T>*, int* info) {                                                         \
    if (m < n) return 7; /* as documented */                                                                                      \
    return submit(h, [=] { *info = gesvd(char(ju), char(jv), m, n, a, lda, s, u, ldu, v, ldv); });                                \
  }
COMMON(S, float) COMMON(D, double) COMMON(C, c8) COMMON(Z, c16)

#define NAMED(L, Q, E, T)                                                                                                  \
  SIZE(cusolverDn##L##Q##_bufferSize, void*, int, int, int, const T*, int, const T*, int* size)                            \
  API cusolverDn##L##Q(void* h, int m, int n, int k, T* a, int lda, const T* tau, T*, int, int* info) {                    \
    return submit(h, [=] { *info = orgqr(m, n, k, a, lda, tau); });                                                        \
  }                                                                                                                        \
  SIZE(cusolverDn##L##E##_bufferSize, void*, int, int, int, const T*, int, const Real<T>*, int* size)                      \
  API cusolverDn##L##E(void* h, int vectors, int uplo, int n, T* a, int lda, Real<T>* w, T*, int, int* info) {             \
    return submit(h, [=] { *info = syevd(vectors, uplo, n, a, lda, w); });                                                 \
  }
NAMED(S, orgqr, syevd, float) NAMED(D, orgqr, syevd, double) NAMED(C, ungqr, heevd, c8) NAMED(Z, ungqr, heevd, c16)

API cusolverDnCreateGesvdjInfo(void** p) { *p = new int(0); return 0; }
API cusolverDnDestroyGesvdjInfo(void* p) { delete static_cast<int*>(p); return 0; }
API cusolverDnCreateSyevjInfo(void** p) { *p = new int(0); return 0; }
API cusolverDnDestroySyevjInfo(void* p) { delete static_cast<int*>(p); return 0; }
API cusolverDnXgesvdjSetTolerance(void*, double) { return 0; }
API cusolverDnXgesvdjSetMaxSweeps(void*, int) { return 0; }
API cusolverDnXgesvdjSetSortEig(void*, int) { return 0; }
API cusolverDnXsyevjSetTolerance(void*, double) { return 0; }
API cusolverDnXsyevjSetMaxSweeps(void*, int) { return 0; }
API cusolverDnXsyevjSetSortEig(void*, int) { return 0; }

#define JACOBI(L, E, T)                                                                                                        \
  SIZE(cusolverDn##L##gesvdj_bufferSize, void*, int, int, int, int, const T*, int, const Real<T>*, const T*, int, const T*,    \
       int, int* size, void*)                                                                                                  \
  API cusolverDn##L##gesvdj(void* h, int vectors, int thin, int m, int n, T* a, int lda, Real<T>* s, T* u, int ldu, T* v,      \
                            int ldv, T*, int, int* info, void*) {                                                              \
    return submit(h, [=] { *info = gesvdj(vectors, thin, m, n, a, lda, s, u, ldu, v, ldv); });                                 \
  }                                                                                                                            \
  SIZE(cusolverDn##L##gesvdjBatched_bufferSize, void*, int, int, int, const T*, int, const Real<T>*, const T*, int, const T*,  \
       int, int* size, void*, int)                                                                                             \
  API cusolverDn##L##gesvdjBatched(void* h, int vectors, int m, int n, T* a, int lda, Real<T>* s, T* u, int ldu, T* v,         \
                                   int ldv, T*, int, int* info, void*, int batch) {                                            \
    if (m > 32 || n > 32) return 7; /* as documented */                                                                        \
    return submit(h, [=] {                                                                                                     \
      for (int i = 0; i < batch; ++i)                                                                                          \
        info[i] = gesvdj(vectors, false, m, n, a + size_t(i) * lda * n, lda, s + size_t(i) * std::min(m, n),                   \
                         u + size_t(i) * ldu * m, ldu, v + size_t(i) * ldv * n, ldv);                                          \
    });                                                                                                                        \
  }                                                                                                                            \
  SIZE(cusolverDn##L##E##_bufferSize, void*, int, int, int, const T*, int, const Real<T>*, int* size, void*)                   \
  API cusolverDn##L##E(void* h, int vectors, int uplo, int n, T* a, int lda, Real<T>* w, T*, int, int* info, void*) {          \
    return submit(h, [=] { *info = syevd(vectors, uplo, n, a, lda, w); });                                                     \
  }                                                                                                                            \
  SIZE(cusolverDn##L##E##Batched_bufferSize, void*, int, int, int, const T*, int, const Real<T>*, int* size, void*, int)       \
  API cusolverDn##L##E##Batched(void* h, int vectors, int uplo, int n, T* a, int lda, Real<T>* w, T*, int, int* info, void*,   \
                                int batch) {                                                                                   \
    return submit(h, [=] {                                                                                                     \
      for (int i = 0; i < batch; ++i) info[i] = syevd(vectors, uplo, n, a + size_t(i) * lda * n, lda, w + size_t(i) * n);      \
    });                                                                                                                        \
  }
JACOBI(S, syevj, float) JACOBI(D, syevj, double) JACOBI(C, heevj, c8) JACOBI(Z, heevj, c16)

API cusolverDnXsyevd_bufferSize(void*, void*, int, int, int64_t, int, const void*, int64_t, int, const void*, int, size_t* d, size_t* h) {
  *d = *h = 64;
  return 0;
}
API cusolverDnXsyevd(void* handle, void*, int vectors, int uplo, int64_t n, int type, void* a, int64_t lda, int, void* w, int,
                     void*, size_t, void*, size_t, int* info) {
  return submit(handle, [=] {
    switch (type) {
      case 0: *info = syevd(vectors, uplo, n, (float*)a, lda, (float*)w); break;
      case 1: *info = syevd(vectors, uplo, n, (double*)a, lda, (double*)w); break;
      case 4: *info = syevd(vectors, uplo, n, (c8*)a, lda, (float*)w); break;
      case 5: *info = syevd(vectors, uplo, n, (c16*)a, lda, (double*)w); break;
    }
  });
}
API cusolverDnXgeev_bufferSize(void*, void*, int, int, int64_t, int, const void*, int64_t, int, const void*, int, const void*, int64_t,
                               int, const void*, int64_t, int, size_t* d, size_t* h) {
  *d = *h = 64;
  return 0;
}
API cusolverDnXgeev(void* handle, void*, int left, int right, int64_t n, int type, void* a, int64_t lda, int, void* w, int, void*,
                    int64_t, int, void* v, int64_t ldv, int, void*, size_t, void*, size_t, int* info) {
  if (left) return 7;  // as documented
  return submit(handle, [=] {
    switch (type) {
      case 0: *info = geev(right, n, (float*)a, lda, (c8*)w, (float*)v, ldv); break;
      case 1: *info = geev(right, n, (double*)a, lda, (c16*)w, (double*)v, ldv); break;
      case 4: *info = geev(right, n, (c8*)a, lda, (c8*)w, (c8*)v, ldv); break;
      case 5: *info = geev(right, n, (c16*)a, lda, (c16*)w, (c16*)v, ldv); break;
    }
  });
}
