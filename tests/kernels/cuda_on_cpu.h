// CUDA C++ on one CPU core: enough of the language for g++ to compile the kernels, and of the machine to run them.
//
// Every CUDA thread of a block is a fiber with a stack of its own; blocks run one after another. A fiber runs until it
// must wait (a barrier, a warp collective) or ends, then the next one runs, in an order that changes from pass to pass
// and is drawn from a seed; in some passes a warp goes as far as it can while the others stand still. So a missing __syncthreads() shows: somebody reads before the writer ran, or writes before
// the readers did. Misuse is reported instead of being undefined: a barrier that not all threads reach, a collective
// whose mask names a lane that does not take part, threads that wait for ever, lanes that do not exist.
// Dynamic shared memory is filled with 0xFF bytes (nan, -1) before each block, so that nobody relies on zeros.
//
// Compiled with CUDA_ON_CPU_FLUSH, kernels compute as those that CuPy compiles (-ftz=true): float32 numbers too small for a
// full fraction (below 1.18e-38) count as zeros and become zeros. The processor knows no such mode for float32 alone, so
// kernels on doubles, which keep theirs on a GPU, run without it.
#pragma once
#define CUDA_ON_CPU 1

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __constant__ static const
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define SHARED_MEMORY(T, name) T* name = reinterpret_cast<T*>(cuda_on_cpu::dynamic_shared)
#define CHECK_ALIGNED(pointer, ...) cuda_on_cpu::check_aligned(pointer, alignof(__VA_ARGS__))

#ifndef CUDA_ON_CPU_TYPES_ELSEWHERE  // where NVIDIA's own headers are in use
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct int2 { int x, y; };
struct int4 { int x, y, z, w; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct double2 { double x, y; };
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
#endif

// Not static: a fiber switch changes them behind the compiler's back.
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace cuda_on_cpu {

constexpr int kLimit = 1024;            // threads of a block
constexpr size_t kParameters = 4096;    // bytes of a kernel's parameters; only newer compilers take more
constexpr size_t kStack = 128 * 1024;   // bytes of stack of a thread; touched pages only take memory
constexpr size_t kShared = 227 * 1024;  // bytes of dynamic shared memory that a block may ask for (sm_90)
constexpr size_t kFence = 256;          // bytes after it that nobody may write

#if defined(__x86_64__)
using Context = void*;
extern "C" void cuda_on_cpu_switch(Context* save, Context load);
asm(R"(
.text
.hidden cuda_on_cpu_switch
.globl cuda_on_cpu_switch
cuda_on_cpu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
inline void swap(Context& save, Context& load) { cuda_on_cpu_switch(&save, load); }
inline void prepare(Context& c, char* stack, void (*entry)()) {
  void** top = reinterpret_cast<void**>(stack + kStack - 64);  // a multiple of 16
  *--top = nullptr;                                            // where entry would return to
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;  // the registers
  c = top;
}
#else
using Context = ucontext_t;
inline void swap(Context& save, Context& load) { swapcontext(&save, &load); }
inline void prepare(Context& c, char* stack, void (*entry)()) {
  getcontext(&c);
  c.uc_stack.ss_sp = stack;
  c.uc_stack.ss_size = kStack;
  c.uc_link = nullptr;
  makecontext(&c, entry, 0);
}
#endif

struct Fiber {
  Context context;
  uint3 index;
  unsigned collective;  // how many warp collectives this thread has been in
  bool done;
};

// Copies that a thread has asked for and not yet waited for: some are made at once, others as late as they may be.
struct Copies {
  static constexpr int kMost = 128;
  struct { void* to; const void* from; unsigned group; } copy[kMost];
  int count;
  unsigned group;
};

struct Warp {  // two buffers: a lane may be one collective ahead of the slowest reader
  uint64_t slot[2][32][2];
  unsigned arrived[2], left[2];
  const char* kind[2];
};

inline Fiber fibers[kLimit];
inline Copies copies[kLimit];
inline Warp warps[kLimit / 32];
inline Context scheduler;
inline char* stacks;
alignas(128) inline char dynamic_shared[kShared + kFence];
inline size_t shared_size;
inline int threads, current, alive, waiting, barrier_line;
inline unsigned barrier_number, order_state = 1;
inline bool progress;
inline char error[256];
inline uint64_t left_out;  // so many blocks of a grid are not run, the first ones
inline void (*body)(void*);
inline void* body_data;

inline void yield() { swap(fibers[current].context, scheduler); }

[[noreturn]] inline void fail(const char* text, int number = 0) {
  if (!error[0])
    snprintf(error, sizeof error, "%s %d (block %u,%u,%u thread %u,%u,%u)", text, number, blockIdx.x, blockIdx.y,
             blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
  for (;;) yield();
}

inline void check_aligned(const void* pointer, size_t to) {
  if (reinterpret_cast<uintptr_t>(pointer) % to) fail("an access that is not aligned to", int(to));
}

inline void barrier(int line) {
  if (waiting == 0) barrier_line = line;
  if (barrier_line != line) fail("threads of a block wait at two different barriers, one in line", line);
  unsigned number = barrier_number;
  progress = true;
  if (++waiting == alive) {
    waiting = 0;
    ++barrier_number;
    return;
  }
  while (number == barrier_number) yield();
}

inline void entry() {
  body(body_data);
  if (copies[current].count) fail("a thread ended without waiting for copies:", copies[current].count);
  fibers[current].done = true;
  progress = true;
  if (--alive > 0 && waiting == alive) {  // those left are all at the barrier
    waiting = 0;
    ++barrier_number;
  }
  for (;;) yield();
}

inline unsigned draw() {  // xorshift: the order in which threads run
  order_state ^= order_state << 13;
  order_state ^= order_state >> 17;
  order_state ^= order_state << 5;
  return order_state;
}

inline void make(void* to, const void* from) {
  if (from) memcpy(to, from, 16);
  else memset(to, 0, 16);
}
inline void send(void* to, const void* from) {
  if (draw() & 1) return make(to, from);
  Copies& own = copies[current];
  if (own.count == Copies::kMost) fail("more copies under way than", Copies::kMost);
  own.copy[own.count++] = {to, from, own.group};
}
inline void sent() { ++copies[current].group; }
inline void arrived(int later) {
  Copies& own = copies[current];
  int kept = 0;
  for (int i = 0; i < own.count; ++i) {
    auto c = own.copy[i];
    if (own.group - c.group <= unsigned(later)) own.copy[kept++] = c;
    else make(c.to, c.from);
  }
  own.count = kept;
}

// Lets `size` threads from `first` on run until each has to wait, beginning with one of them, up or down.
inline void run_pass(int first, int size, int start, bool up) {
  for (int n = 0, i = start; n < size && !error[0]; ++n, i = (i + (up ? 1 : size - 1)) % size) {
    if (fibers[first + i].done) continue;
    current = first + i;
    threadIdx = fibers[current].index;
    swap(scheduler, fibers[current].context);
  }
}

inline void continue_or_fail() {
  if (!progress && alive && !error[0])
    snprintf(error, sizeof error, "%d threads of block %u wait for ever", alive, blockIdx.x);
}

inline void run_block() {
  memset(dynamic_shared, 0xFF, shared_size + kFence);
  alive = threads;
  waiting = 0;
  for (int i = 0; i < threads; ++i) {
    Fiber& f = fibers[i];
    f.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
    f.collective = 0;
    f.done = false;
    copies[i].count = 0;
    prepare(f.context, stacks + size_t(i) * kStack, entry);
  }
  memset(warps, 0, sizeof(Warp) * ((threads + 31) / 32));
  int warp_count = (threads + 31) / 32;
  while (alive && !error[0]) {
    progress = false;
    unsigned random = draw();
    int step = random & 1;
    if (random & 2) {
      run_pass(0, threads, random / 4 % threads, step);
      continue_or_fail();
      continue;
    }
    bool any = false;  // one warp after another, each as far as it comes alone
    for (int n = 0, w = random / 4 % warp_count; n < warp_count; ++n, w = (w + (step ? 1 : warp_count - 1)) % warp_count) {
      int size = threads - 32 * w < 32 ? threads - 32 * w : 32;
      do {
        progress = false;
        run_pass(32 * w, size, draw() % size, step);
        any |= progress;
      } while (progress && !error[0]);
    }
    progress = any;
    continue_or_fail();
  }
  for (size_t i = shared_size; i < shared_size + kFence; ++i)
    if (dynamic_shared[i] != char(0xFF) && !error[0])
      snprintf(error, sizeof error, "block %u wrote beyond its dynamic shared memory", blockIdx.x);
}

// Why a driver refuses a launch, or nullptr. bound: the most threads of a block that the kernel was compiled for.
inline const char* refused(const unsigned* sizes, size_t shared, int bound) {
  size_t count = size_t(sizes[3]) * sizes[4] * sizes[5];
  if (count == 0 || count > kLimit || sizes[5] > 64) return "a block has 1 to 1024 threads";
  if (int(count) > bound) return "the block has more threads than __launch_bounds__ of the kernel says";
  if (!sizes[0] || !sizes[1] || !sizes[2] || sizes[0] > 0x7fffffffu || sizes[1] > 65535 || sizes[2] > 65535)
    return "the grid is empty or too large";
  return shared > kShared ? "too much dynamic shared memory" : nullptr;
}

// Runs `body` once for each thread of the grid; what went wrong, or nullptr.
inline const char* run(dim3 grid, dim3 block, size_t shared, unsigned seed, void (*what)(void*), void* data) {
  error[0] = 0;
  size_t count = size_t(block.x) * block.y * block.z;
  if (!stacks) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* memory = mmap(nullptr, kLimit * kStack, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) return "no memory for stacks";
    stacks = static_cast<char*>(memory);
  }
  gridDim = grid, blockDim = block, threads = int(count), shared_size = shared, body = what, body_data = data;
  order_state = seed | 1;
  uint64_t number = 0;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        if (number++ < left_out) continue;
        blockIdx = {x, y, z};
        run_block();
        if (error[0]) return error;
      }
  return nullptr;
}

// One value from each lane of `mask`; returns the buffer that holds them all, to be given back with `leave`.
template <class V> Warp& meet(unsigned mask, V value, const char* kind, unsigned& buffer) {
  static_assert(sizeof(V) <= 16, "values of collectives have at most 16 bytes");
  unsigned lane = current % 32;
  Warp& w = warps[current / 32];
  if (!(mask >> lane & 1)) fail("a lane is not in the mask of its own collective:", lane);
  int lanes = threads - current / 32 * 32;
  if (lanes < 32 && mask >> lanes) fail("the mask of a collective names lanes that do not exist, of a warp with", lanes);
  unsigned b = buffer = fibers[current].collective++ & 1;
  if (!w.arrived[b]) w.kind[b] = kind;
  if (w.kind[b] != kind) fail("lanes of a warp are in different collectives, lane", lane);
  memcpy(w.slot[b][lane], &value, sizeof value);
  w.arrived[b] |= 1u << lane;
  progress = true;
  while ((w.arrived[b] & mask) != mask) yield();
  return w;
}
inline void leave(Warp& w, unsigned b, unsigned mask) {
  w.left[b] |= 1u << current % 32;
  if ((w.left[b] & mask) == mask) w.arrived[b] &= ~mask, w.left[b] &= ~mask;
}
template <class V> V shuffle(unsigned mask, V value, int source, const char* kind) {
  unsigned b;
  Warp& w = meet(mask, value, kind, b);
  if (source >= 0 && !(mask >> source & 1)) fail("a shuffle reads a lane outside of its mask:", source);
  V result = value;
  if (source >= 0) memcpy(&result, w.slot[b][source], sizeof result);
  leave(w, b, mask);
  return result;
}
template <class V, class Op> V combine(unsigned mask, V value, Op op, const char* kind) {
  unsigned b;
  Warp& w = meet(mask, value, kind, b);
  V result{};
  bool first = true;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) {
      V other;
      memcpy(&other, w.slot[b][lane], sizeof other);
      result = first ? other : op(result, other);
      first = false;
    }
  leave(w, b, mask);
  return result;
}

}  // namespace cuda_on_cpu

// -- barriers and warp collectives

#define __syncthreads() cuda_on_cpu::barrier(__LINE__)
inline void __syncwarp(unsigned mask = ~0u) { cuda_on_cpu::shuffle(mask, 0, -1, "syncwarp"); }
inline void __threadfence() {}
inline void __threadfence_block() {}
[[noreturn]] inline void __trap() { cuda_on_cpu::fail("__trap()"); }

template <class V> V __shfl_sync(unsigned mask, V v, int lane, int width = 32) {
  int own = cuda_on_cpu::current % 32;
  return cuda_on_cpu::shuffle(mask, v, (own & ~(width - 1)) | (lane & (width - 1)), "shfl");
}
template <class V> V __shfl_xor_sync(unsigned mask, V v, int bits, int width = 32) {
  int own = cuda_on_cpu::current % 32, other = own ^ bits;
  return cuda_on_cpu::shuffle(mask, v, (other & ~(width - 1)) <= (own & ~(width - 1)) ? other : -1, "shfl_xor");
}
template <class V> V __shfl_down_sync(unsigned mask, V v, unsigned n, int width = 32) {
  int own = cuda_on_cpu::current % 32;
  return cuda_on_cpu::shuffle(mask, v, (own & (width - 1)) + int(n) < width ? own + int(n) : -1, "shfl_down");
}
template <class V> V __shfl_up_sync(unsigned mask, V v, unsigned n, int width = 32) {
  int own = cuda_on_cpu::current % 32;
  return cuda_on_cpu::shuffle(mask, v, (own & (width - 1)) >= int(n) ? own - int(n) : -1, "shfl_up");
}
inline unsigned __ballot_sync(unsigned mask, int test) {
  unsigned bit = test ? 1u << cuda_on_cpu::current % 32 : 0;
  return cuda_on_cpu::combine(mask, bit, [](unsigned a, unsigned b) { return a | b; }, "ballot");
}
inline int __any_sync(unsigned mask, int test) { return __ballot_sync(mask, test) != 0; }
inline int __all_sync(unsigned mask, int test) { return __ballot_sync(mask, test) == mask; }
template <class V> V __reduce_add_sync(unsigned mask, V v) {
  static_assert(std::is_same_v<V, int> || std::is_same_v<V, unsigned>, "integers only");
  return cuda_on_cpu::combine(mask, v, [](V a, V b) { return V(unsigned(a) + unsigned(b)); }, "reduce_add");
}
template <class V> V __reduce_max_sync(unsigned mask, V v) {
  return cuda_on_cpu::combine(mask, v, [](V a, V b) { return a > b ? a : b; }, "reduce_max");
}
template <class V> V __reduce_min_sync(unsigned mask, V v) {
  return cuda_on_cpu::combine(mask, v, [](V a, V b) { return a < b ? a : b; }, "reduce_min");
}

// -- atomics: fibers change places only where they wait, so plain memory operations will do

template <class V> V atomicAdd(V* p, std::common_type_t<V> v) { V old = *p; *p = old + v; return old; }
template <class V> V atomicMax(V* p, std::common_type_t<V> v) { V old = *p; if (v > old) *p = v; return old; }
template <class V> V atomicMin(V* p, std::common_type_t<V> v) { V old = *p; if (v < old) *p = v; return old; }
template <class V> V atomicExch(V* p, std::common_type_t<V> v) { V old = *p; *p = v; return old; }
template <class V> V atomicOr(V* p, std::common_type_t<V> v) { V old = *p; *p |= v; return old; }
template <class V> V atomicCAS(V* p, std::common_type_t<V> expected, std::common_type_t<V> v) {
  V old = *p;
  if (old == expected) *p = v;
  return old;
}

// -- integers, bits, mathematics

template <class V> const V& min(const V& a, const V& b) { return b < a ? b : a; }
template <class V> const V& max(const V& a, const V& b) { return a < b ? b : a; }
template <class V> V __ldg(const V* p) { return *p; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
template <class To, class From> To cuda_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "the same size");
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}
inline unsigned __float_as_uint(float x) { return cuda_bits<unsigned>(x); }
inline int __float_as_int(float x) { return cuda_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return cuda_bits<float>(x); }
inline float __int_as_float(int x) { return cuda_bits<float>(x); }
inline long long __double_as_longlong(double x) { return cuda_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return cuda_bits<double>(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float a, float b) { return a / b; }

// IEEE half precision by hand: what cvt.f32.f16 and cvt.rn.f16.f32 do.
inline float cuda_half_to_float(unsigned short h) {
  unsigned sign = (h & 0x8000u) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ffu;
  if (exponent == 31) return cuda_bits<float>(sign | 0x7f800000u | fraction << 13);
  float size = exponent ? ldexpf(float(fraction | 0x400u), int(exponent) - 25) : ldexpf(float(fraction), -24);
  return sign ? -size : size;
}
inline unsigned short cuda_float_to_half(float x) {
  unsigned bits = cuda_bits<unsigned>(x), sign = bits >> 16 & 0x8000u;
  float size = fabsf(x);
  if (x != x) return (unsigned short)(sign | 0x7fffu);
  if (size >= 65520.0f) return (unsigned short)(sign | 0x7c00u);
  if (size == 0) return (unsigned short)sign;
  int exponent;
  frexpf(size, &exponent);                               // size = f * 2**exponent with f in [0.5, 1)
  int step = exponent - 11 < -24 ? -24 : exponent - 11;  // the last bit that half precision keeps
  float steps = nearbyintf(ldexpf(size, -step));         // ties to even, as the machine is set
  unsigned rounded = (unsigned)steps;                    // 0 ... 2048
  // the fraction overflows into the exponent where rounding reaches the next power of two
  return (unsigned short)(sign | (step == -24 ? rounded : ((unsigned)(step + 24) << 10) + rounded));
}

// -- how Python calls a kernel: arguments as an array of pointers to values, as cuLaunchKernel takes them

namespace cuda_on_cpu {

struct Parameter { int size, pointee; char kind; };  // kind: p pointer, i integer, f floating, s struct

template <class P> constexpr Parameter describe() {
  if constexpr (std::is_pointer_v<P>) {
    using To = std::remove_cv_t<std::remove_pointer_t<P>>;
    if constexpr (std::is_void_v<To>) return {sizeof(P), 0, 'p'};
    else return {sizeof(P), sizeof(To), 'p'};
  } else {
    return {sizeof(P), 0, std::is_integral_v<P> ? 'i' : std::is_floating_point_v<P> ? 'f' : 's'};
  }
}

template <int...> struct Indices {};
template <int N, int... I> struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <int... I> struct MakeIndices<0, I...> { using type = Indices<I...>; };

template <class... P> struct Call {
  void (*kernel)(P...);
  void** arguments;
  template <int... I> void spread(Indices<I...>) { kernel(*static_cast<std::remove_reference_t<P>*>(arguments[I])...); }
  static void body(void* self) {
    static_cast<Call*>(self)->spread(typename MakeIndices<sizeof...(P)>::type{});
  }
};

// How the processor treats numbers that are too small for a full fraction, for as long as this lives.
class Flush {
#if !defined(CUDA_ON_CPU_FLUSH)
 public:
  explicit Flush(bool) {}
#elif defined(__x86_64__)
  unsigned before = _mm_getcsr();

 public:
  explicit Flush(bool wanted) { _mm_setcsr(wanted ? before | 0x8040u : before & ~0x8040u); }  // results and operands
  ~Flush() { _mm_setcsr(before); }
#elif defined(__aarch64__)
  uint64_t before;

 public:
  explicit Flush(bool wanted) {
    asm volatile("mrs %0, fpcr" : "=r"(before));
    uint64_t mode = wanted ? before | 1u << 24 : before & ~(uint64_t(1) << 24);
    asm volatile("msr fpcr, %0" ::"r"(mode));
  }
  ~Flush() { asm volatile("msr fpcr, %0" ::"r"(before)); }
#else
#error "CUDA_ON_CPU_FLUSH: it is not known how this processor is told to flush small numbers to zero"
#endif
};

// The bytes of parameters, each where its alignment puts it.
template <class... P> constexpr size_t parameter_bytes() {
  size_t sizes[] = {sizeof(P)..., 0}, to[] = {alignof(P)..., 1}, end = 0;
  for (size_t i = 0; i < sizeof...(P); ++i) end = (end + to[i] - 1) / to[i] * to[i] + sizes[i];
  return end;
}
// The first number in the brackets of __launch_bounds__.
constexpr int first_of(int threads, ...) { return threads; }

// flush: whether the kernel computes in float32, see above.
template <class... P>
const char* launch(void (*kernel)(P...), const unsigned* sizes, size_t shared, unsigned seed, void** arguments,
                   int bound, bool flush = true) {
  static_assert(parameter_bytes<P...>() <= kParameters, "formal parameter space overflowed: 4096 bytes at most");
  if (const char* why = refused(sizes, shared, bound)) return why;
  Flush mode(flush);
  Call<P...> call{kernel, arguments};
  dim3 grid(sizes[0], sizes[1], sizes[2]), block(sizes[3], sizes[4], sizes[5]);
  return run(grid, block, shared, seed, Call<P...>::body, &call);
}
template <class... P> int parameters(void (*)(P...), Parameter* out) {
  Parameter all[] = {describe<std::remove_cv_t<P>>()..., {}};
  for (size_t i = 0; i < sizeof...(P); ++i) out[i] = all[i];
  return int(sizeof...(P));
}

}  // namespace cuda_on_cpu
