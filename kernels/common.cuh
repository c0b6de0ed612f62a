// What the kernels share: element types, the type to compute in, reductions of a row of threads.
// Sources are compiled by NVRTC with this file pasted in; nothing here needs a header of the CUDA toolkit.
#pragma once

typedef long long int64;
typedef unsigned long long uint64;

#ifndef CUDA_ON_CPU
#define CHECK_ALIGNED(pointer, type)  // a GPU stops by itself at an access that is not aligned
#define SHARED_MEMORY(T, name)                                        \
  extern __shared__ __align__(16) unsigned char shared_memory_bytes[]; \
  T* name = reinterpret_cast<T*>(shared_memory_bytes)
#endif

// Half types are for storage: they convert to float when read and round once (to nearest even) when written.
struct float16 {
  unsigned short bits;
  float16() = default;
  __device__ __forceinline__ float16(float x) {
#ifdef CUDA_ON_CPU
    bits = cuda_float_to_half(x);
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#endif
  }
  __device__ __forceinline__ operator float() const {
#ifdef CUDA_ON_CPU
    return cuda_half_to_float(bits);
#else
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
#endif
  }
};

struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  __device__ __forceinline__ bfloat16(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
    unsigned word = __float_as_uint(x);
    bits = x != x ? (unsigned short)((word >> 16) | 0x40u) : (unsigned short)((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
#endif
  }
  __device__ __forceinline__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
};

// The type that values of type T are computed and added up in.
template <typename T> struct Wide { typedef float type; };
template <> struct Wide<double> { typedef double type; };
template <typename T> using wide = typename Wide<T>::type;

template <typename A> __device__ __forceinline__ A infinity();
template <> __device__ __forceinline__ float infinity<float>() { return __int_as_float(0x7f800000); }
template <> __device__ __forceinline__ double infinity<double>() { return __longlong_as_double(0x7ff0000000000000ll); }

template <typename A> __device__ __forceinline__ A not_a_number() { return infinity<A>() - infinity<A>(); }

// The larger of two; nan if one of them is.
template <typename A> __device__ __forceinline__ A larger(A a, A b) { return a > b || a != a ? a : b; }

struct Add {
  template <typename A> __device__ __forceinline__ A operator()(A a, A b) const { return a + b; }
};
struct Larger {
  template <typename A> __device__ __forceinline__ A operator()(A a, A b) const { return larger(a, b); }
};

// `value` of all threads of the block combined, or, with ROWS, of the threads of its row (equal threadIdx.y); each of
// them gets the same result, which does not depend on the order in which they run. The block has a multiple of 32
// threads; with ROWS blockDim.x is a multiple of 32, and if it is not 32, blockDim.y is 1.
template <bool ROWS, typename A, typename Op> __device__ __forceinline__ A combine(A value, Op op) {
  for (int step = 16; step > 0; step /= 2) value = op(value, __shfl_xor_sync(~0u, value, step));
  if (ROWS && blockDim.x == 32) return value;
  const int thread = threadIdx.x + blockDim.x * threadIdx.y, warps = blockDim.x * blockDim.y / 32;
  __shared__ A partial[32];  // one for each warp
  __syncthreads();           // the results of an earlier call have been read
  if (thread % 32 == 0) partial[thread / 32] = value;
  __syncthreads();
  value = partial[0];
  for (int warp = 1; warp < warps; ++warp) value = op(value, partial[warp]);
  return value;
}

template <typename A> __device__ __forceinline__ A block_sum(A value) { return combine<false>(value, Add()); }

// The sum of f(0) ... f(parts - 1) for the threads of a block with one threadIdx.x, which share the parts out and get the
// same result, always added up in the same order. Blocks of 32 x up to 32 threads, from parts_launch; `valid` is false
// for columns that are none.
template <typename A, typename F> __device__ __forceinline__ A parts_sum(int64 parts, bool valid, F f) {
  A sum = 0;
  if (valid)
    for (int64 part = threadIdx.y; part < parts; part += blockDim.y) sum += f(part);
  __shared__ A box[32][32];
  __syncthreads();  // an earlier call has been read
  box[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = box[0][threadIdx.x];
  for (int row = 1; row < blockDim.y; ++row) sum += box[row][threadIdx.x];
  return sum;
}

// a / b and a % b for a >= 0, b > 0; 32-bit division is several times quicker, and sizes are rarely larger.
__device__ __forceinline__ int64 quotient(int64 a, int64 b) {
  return (a | b) >> 32 ? a / b : (int64)((unsigned)a / (unsigned)b);
}
__device__ __forceinline__ int64 rest_of(int64 a, int64 b) { return a - quotient(a, b) * b; }

// The number of this thread in a one-dimensional launch.
__device__ __forceinline__ int64 thread_number() { return (int64)blockIdx.x * blockDim.x + threadIdx.x; }

// Neighbouring elements that are moved at once: 16 bytes of them, or N elements.
template <typename T, int N = 16 / (int)sizeof(T)> struct __align__(N * sizeof(T)) Pack {
  static constexpr int size = N;
  T at[N];
};
template <typename T, int N = Pack<T>::size> __device__ __forceinline__ const Pack<T, N>& pack_of(const T* p) {
  typedef Pack<T, N> P;
  CHECK_ALIGNED(p, P);
  return *reinterpret_cast<const P*>(p);
}
template <typename T, int N = Pack<T>::size> __device__ __forceinline__ Pack<T, N>& pack_of(T* p) {
  typedef Pack<T, N> P;
  CHECK_ALIGNED(p, P);
  return *reinterpret_cast<P*>(p);
}
template <typename T, int N = Pack<T>::size> __device__ __forceinline__ bool aligned(const T* p) {
  return (uint64)p % sizeof(Pack<T, N>) == 0;
}

// The elements at p ... p + count - 1, zeros after them; as one where they are all there and `whole`, which means aligned.
template <typename T> __device__ __forceinline__ Pack<T> read_pack(const T* p, int64 count, bool whole) {
  if (whole && count >= Pack<T>::size) return pack_of(p);
  Pack<T> pack;
#pragma unroll
  for (int k = 0; k < Pack<T>::size; ++k) pack.at[k] = k < count ? p[k] : T(0.0f);
  return pack;
}
template <typename T> __device__ __forceinline__ void write_pack(T* p, const Pack<T>& pack, int64 count, bool whole) {
  if (whole && count >= Pack<T>::size) {
    pack_of(p) = pack;
    return;
  }
#pragma unroll
  for (int k = 0; k < Pack<T>::size; ++k)
    if (k < count) p[k] = pack.at[k];
}

// Over the elements first + k < size of a Pack of [samples, channels, inner]: enter(channel) where the first one and where
// another channel begins, and step(k) for each; one division for all of them.
template <typename T, typename Enter, typename Step>
__device__ __forceinline__ void walk(int64 first, int64 size, int64 channels, int64 inner, Enter enter, Step step) {
  const int64 line = quotient(first, inner);
  int64 channel = rest_of(line, channels), place = first - line * inner;
#pragma unroll
  for (int k = 0; k < Pack<T>::size; ++k) {
    if (first + k >= size) return;
    if (k == 0 || place == inner) {
      if (k > 0) place = 0, channel = channel + 1 == channels ? 0 : channel + 1;
      enter(channel);
    }
    ++place;
    step(k);
  }
}

// What lies at p as a value of another type, for moving it.
template <typename To, typename T> __device__ __forceinline__ To& as(T* p) {
  CHECK_ALIGNED(p, To);
  return *reinterpret_cast<To*>(p);
}

// A line of n elements along the middle dimension of C-contiguous [outer, n, inner], and who works on it.
// COLUMNS: one thread for each line (any inner), neighbours in memory side by side; grid covers outer * inner threads.
// Otherwise inner is 1 and a row of threads shares a line; grid and block from rows_launch(outer, n).
template <bool COLUMNS> struct Line {
  int64 number, start, stride, n;
  int first, step;  // this thread takes elements first, first + step, ...
  bool valid;

  __device__ __forceinline__ Line(int64 outer, int64 n, int64 inner) : n(n) {
    if (COLUMNS) {
      number = thread_number();
      start = quotient(number, inner) * n * inner + rest_of(number, inner);
      stride = inner, first = 0, step = 1;
    } else {
      number = (int64)blockIdx.x * blockDim.y + threadIdx.y;
      start = number * n;
      stride = 1, first = threadIdx.x, step = blockDim.x;
    }
    valid = number < outer * inner;
  }
  // Where element j is.
  __device__ __forceinline__ int64 operator[](int64 j) const { return start + j * stride; }
  // Values of the threads of this line combined.
  template <typename A, typename Op> __device__ __forceinline__ A reduce(A value, Op op) const {
    return COLUMNS ? value : combine<true>(value, op);
  }
  template <typename A> __device__ __forceinline__ A sum(A value) const { return reduce(value, Add()); }
  // Whether this thread writes what there is once for each line.
  __device__ __forceinline__ bool writes() const { return first == 0; }
};

template <typename R, typename> struct SameType { typedef R type; };
template <typename R, typename Any> using Same = typename SameType<R, Any>::type;  // R, once for each Any

// f(j, packs at j of `in`...) for the elements j of `line` at which packs of this thread begin; false, and nothing, where
// packs of N do not fill the line or are not aligned. f takes packs by value: by reference they would be read element by
// element.
template <int N, typename T, bool COLUMNS, typename F, typename... In>
__device__ __forceinline__ bool by_packs(const Line<COLUMNS>& line, const T* out, F f, In... in) {
  if (line.n % N != 0 || !aligned<T, N>(out) || !(aligned<T, N>(in) && ...)) return false;
  for (int64 j = (int64)line.first * N; j < line.n; j += (int64)line.step * N) f(j, pack_of<T, N>(in + line.start + j)...);
  return true;
}

// f(j, in[j]...) for the elements j of `line` that are this thread's: `in` are arrays of T that have such a line each.
// Packs are read where the lines allow it; of half types also those of 8 bytes.
template <typename T, bool COLUMNS, typename F, typename... In>
__device__ __forceinline__ void visit(const Line<COLUMNS>& line, F f, In... in) {
  if constexpr (!COLUMNS) {
    constexpr int size = Pack<T>::size;
    const T* none = nullptr;
    if (by_packs<size>(line, none, [&](int64 j, Same<Pack<T>, In>... packs) {
#pragma unroll
          for (int k = 0; k < size; ++k) f(j + k, packs.at[k]...);
        }, in...)) return;
    if constexpr (size == 8) {
      if (by_packs<4>(line, none, [&](int64 j, Same<Pack<T, 4>, In>... packs) {
#pragma unroll
            for (int k = 0; k < 4; ++k) f(j + k, packs.at[k]...);
          }, in...)) return;
    }
  }
  for (int64 j = line.first; j < line.n; j += line.step) f(j, in[line[j]]...);
}

// out[j] = f(j, in[j]...) in the same way.
template <typename T, bool COLUMNS, typename F, typename... In>
__device__ __forceinline__ void fill(const Line<COLUMNS>& line, T* out, F f, In... in) {
  if constexpr (!COLUMNS) {
    constexpr int size = Pack<T>::size;
    if (by_packs<size>(line, out, [&](int64 j, Same<Pack<T>, In>... packs) {
          Pack<T> results;
#pragma unroll
          for (int k = 0; k < size; ++k) results.at[k] = T(f(j + k, packs.at[k]...));
          pack_of(out + line.start + j) = results;
        }, in...)) return;
    if constexpr (size == 8) {
      if (by_packs<4>(line, out, [&](int64 j, Same<Pack<T, 4>, In>... packs) {
            Pack<T, 4> results;
#pragma unroll
            for (int k = 0; k < 4; ++k) results.at[k] = T(f(j + k, packs.at[k]...));
            pack_of<T, 4>(out + line.start + j) = results;
          }, in...)) return;
    }
  }
  for (int64 j = line.first; j < line.n; j += line.step) out[line[j]] = T(f(j, in[line[j]]...));
}
