// CUB's functions on whole arrays, which the wheels of CuPy carry compiled for GPUs alone: `machine.py` sends the calls of
// cupy.cuda.cub here. Numbers are added in their own type, as 256 threads would and then by halves, so that a sum has the
// rounding of a device and not that of a loop.
#include <algorithm>
#include <complex>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include <cuda_fp16.h>
#include <driver_types.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

extern "C" int cuda_on_cpu_enqueue(void* stream, std::function<int()>* work);  // takes `work` over

namespace {

unsigned long calls;
enum Op { kSum, kMin, kMax, kArgMin, kArgMax, kCumSum, kCumProd, kProd };

template <class T> struct Number {
  static T sum(T a, T b) { return T(a + b); }
  static T product(T a, T b) { return T(a * b); }
  static bool less(T a, T b) { return a < b; }
  static bool nan(T a) { return a != a; }
};
template <> struct Number<__half> {
  static __half sum(__half a, __half b) { return __float2half(__half2float(a) + __half2float(b)); }
  static __half product(__half a, __half b) { return __float2half(__half2float(a) * __half2float(b)); }
  static bool less(__half a, __half b) { return __half2float(a) < __half2float(b); }
  static bool nan(__half a) { return __half2float(a) != __half2float(a); }
};
template <class R> struct Number<std::complex<R>> {
  using T = std::complex<R>;
  static T sum(T a, T b) { return a + b; }
  static T product(T a, T b) { return a * b; }
  static bool less(T a, T b) { return a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag()); }
  static bool nan(T a) { return a.real() != a.real() || a.imag() != a.imag(); }
};

// Whether b takes the place of a as the extreme value; nan before all else, the first one.
template <class T> bool replaces(T a, T b, bool largest) {
  using N = Number<T>;
  return !N::nan(a) && (N::nan(b) || (largest ? N::less(a, b) : N::less(b, a)));
}
template <class T> T combine(T a, T b, int op) {
  switch (op) {
    case kSum: case kCumSum: return Number<T>::sum(a, b);
    case kProd: case kCumProd: return Number<T>::product(a, b);
    default: return replaces(a, b, op == kMax) ? b : a;
  }
}
template <class T> T reduced(const T* x, size_t n, int op) {
  constexpr size_t kThreads = 256;
  if (n == 0) return op == kProd ? T(1.0f) : T(0.0f);
  std::vector<T> each(x, x + std::min(n, kThreads));
  for (size_t i = kThreads; i < n; ++i) each[i % kThreads] = combine(each[i % kThreads], x[i], op);
  for (size_t step = kThreads / 2; step; step /= 2)
    for (size_t i = 0; i < step && i + step < each.size(); ++i) each[i] = combine(each[i], each[i + step], op);
  return each[0];
}
template <class T> int place(const T* x, int n, bool largest) {
  int best = 0;
  for (int i = 1; i < n; ++i)
    if (replaces(x[best], x[i], largest)) best = i;
  return best;
}

// f(pointer of the type that a number of CuPy means)
template <class F> void of_type(int dtype, void* x, F f) {
  switch (dtype) {
    case 0: return f(static_cast<signed char*>(x));
    case 1: return f(static_cast<unsigned char*>(x));
    case 2: return f(static_cast<short*>(x));
    case 3: return f(static_cast<unsigned short*>(x));
    case 4: return f(static_cast<int*>(x));
    case 5: return f(static_cast<unsigned*>(x));
    case 6: return f(static_cast<long*>(x));
    case 7: return f(static_cast<unsigned long*>(x));
    case 8: return f(static_cast<__half*>(x));
    case 9: return f(static_cast<float*>(x));
    case 10: return f(static_cast<double*>(x));
    case 11: return f(static_cast<std::complex<float>*>(x));
    case 12: return f(static_cast<std::complex<double>*>(x));
    default: throw std::runtime_error("a dtype that CUB was not compiled for");
  }
}

// In the order of the stream, or as a node of the graph that it is captured into.
void enqueue(cudaStream_t stream, std::function<void()> what) {
  ++calls;
  cuda_on_cpu_enqueue(stream, new std::function<int()>([what = std::move(what)] { what(); return 0; }));
}

template <class T, class Bin> void histogram(const T* x, size_t n, long* counts, int bins, Bin bin_of) {
  std::fill(counts, counts + bins, 0);
  for (size_t i = 0; i < n; ++i) {
    int bin = bin_of(x[i]);
    if (bin >= 0 && bin < bins) ++counts[bin];
  }
}

}  // namespace

EXPORT unsigned long cuda_on_cpu_cub_calls() { return calls; }

EXPORT void my_cub_device_reduce(void*, size_t&, void* x, void* y, int n, cudaStream_t s, int op, int dtype) {
  enqueue(s, [=] {
    of_type(dtype, x, [=](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      if (op == kArgMin || op == kArgMax)
        *static_cast<int*>(y) = place(from, n, op == kArgMax);
      else
        *static_cast<T*>(y) = reduced(from, n, op);
    });
  });
}
EXPORT void my_cub_device_segmented_reduce(void*, size_t&, void* x, void* y, int segments, int size, cudaStream_t s, int op, int dtype) {
  enqueue(s, [=] {
    of_type(dtype, x, [=](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      for (int i = 0; i < segments; ++i) static_cast<T*>(y)[i] = reduced(from + size_t(i) * size, size, op);
    });
  });
}
EXPORT void my_cub_device_scan(void*, size_t&, void* x, void* y, int n, cudaStream_t s, int op, int dtype) {
  enqueue(s, [=] {
    of_type(dtype, x, [=](auto* from) {
      auto* to = static_cast<decltype(from)>(y);
      for (int i = 0; i < n; ++i) to[i] = i ? combine(to[i - 1], from[i], op) : from[i];
    });
  });
}
EXPORT void my_cub_device_histogram_range(void*, size_t&, void* x, void* y, int edges, void* at, size_t n, cudaStream_t s, int dtype) {
  enqueue(s, [=] {
    of_type(dtype, x, [=](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      using Edge = std::conditional_t<std::is_integral_v<T>, double, T>;
      auto* first = static_cast<Edge*>(at);
      histogram(from, n, static_cast<long*>(y), edges - 1, [=](T value) {
        return int(std::upper_bound(first, first + edges, Edge(value), Number<Edge>::less) - first) - 1;
      });
    });
  });
}
EXPORT void my_cub_device_histogram_even(void*, size_t&, void* x, void* y, int edges, int low, int high, size_t n, cudaStream_t s, int dtype) {
  enqueue(s, [=] {
    of_type(dtype, x, [=](auto* from) {
      using T = std::remove_pointer_t<decltype(from)>;
      if constexpr (std::is_integral_v<T>)
        histogram(from, n, static_cast<long*>(y), edges - 1, [=](T value) {
          if (long(value) < low || long(value) >= high) return -1;
          return int((long(value) - low) * (edges - 1) / (high - low));
        });
      else
        throw std::runtime_error("CUB was compiled with even bins for integers only");
    });
  });
}
EXPORT size_t my_cub_device_reduce_get_workspace_size(void*, void*, int, cudaStream_t, int, int) { return 256; }
EXPORT size_t my_cub_device_segmented_reduce_get_workspace_size(void*, void*, int, int, cudaStream_t, int, int) { return 256; }
EXPORT size_t my_cub_device_scan_get_workspace_size(void*, void*, int, cudaStream_t, int, int) { return 256; }
EXPORT size_t my_cub_device_histogram_range_get_workspace_size(void*, void*, int, void*, size_t, cudaStream_t, int) { return 256; }
EXPORT size_t my_cub_device_histogram_even_get_workspace_size(void*, void*, int, int, int, size_t, cudaStream_t, int) { return 256; }
