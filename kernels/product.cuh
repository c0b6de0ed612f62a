// A tile of a product of matrices in a block of 128 threads: sums[M, 128] += a[M, 16] b[16, 128], operands in shared
// memory, M is 64 (32 for double).
//
// float and double: a thread has 8 x 8 (4 x 8) sums in registers. Half types: each of the four warps has 64 x 32 sums and
// multiplies on tensor cores (PTX ISA, mma.m16n8k16; sm_80 and later), added up in float32.
#pragma once

template <typename T> struct Product {
  typedef wide<T> A;
  static constexpr int each_m = sizeof(T) == 8 ? 4 : 8, M = 8 * each_m, N = 128, K = 16, size = Pack<A>::size;
  struct __align__(16) Tiles {
    A a[K][M + size], b[K][N + size];  // size more, so that threads that write a column meet fewer bank conflicts
    __device__ __forceinline__ void put_a(int m, int k, T value) { a[k][m] = value; }
    __device__ __forceinline__ void put_b(int k, int n, T value) { b[k][n] = value; }
    __device__ __forceinline__ void put_b(int n, const T (&column)[K]) {
#pragma unroll
      for (int k = 0; k < K; ++k) b[k][n] = column[k];
    }
  };
  A sums[each_m][8];

  __device__ __forceinline__ Product() {
    for (auto& row : sums)
      for (A& sum : row) sum = 0;
  }
  __device__ __forceinline__ void add(const Tiles& tiles) {
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll 4
    for (int k = 0; k < K; ++k) {
      Pack<A> a[each_m / size], b[8 / size];
#pragma unroll
      for (int i = 0; i < each_m / size; ++i) a[i] = pack_of(&tiles.a[k][y * each_m + i * size]);
#pragma unroll
      for (int j = 0; j < 8 / size; ++j) b[j] = pack_of(&tiles.b[k][(j * 16 + x) * size]);
#pragma unroll
      for (int i = 0; i < each_m; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sums[i][j] += a[i / size].at[i % size] * b[j / size].at[j % size];
    }
  }
  // f(m, n, sum) for the sums of this thread.
  template <typename F> __device__ __forceinline__ void each(F f) const {
    const int x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < each_m; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) f(y * each_m + i, (j / size * 16 + x) * size + j % size, sums[i][j]);
  }
};

template <typename T> constexpr bool is_float16 = false;
template <> constexpr bool is_float16<float16> = true;

// c[16, 8] += a[16, 16] b[16, 8], spread over the lanes of a warp as the instruction has it.
template <typename T> __device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (is_float16<T>)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else  // the same by shuffles, for what has no such instruction
  const int lane = threadIdx.x % 32, row = lane / 4, column = lane % 4 * 2;
  for (int j = 0; j < 4; ++j) {  // lane 4 r + j has entries 2 j, 2 j + 1, 2 j + 8, 2 j + 9 of its rows (columns)
    unsigned left[4], right[2][2];
    for (int r = 0; r < 4; ++r) left[r] = __shfl_sync(~0u, a[r], row * 4 + j);
    for (int h = 0; h < 2; ++h)
      for (int r = 0; r < 2; ++r) right[h][r] = __shfl_sync(~0u, b[r], (column + h) * 4 + j);
    for (int h = 0; h < 2; ++h)
      for (int r = 0; r < 2; ++r)
        for (int shift = 0; shift < 32; shift += 16) {
          T value, upper, lower;
          value.bits = (unsigned short)(right[h][r] >> shift);
          upper.bits = (unsigned short)(left[2 * r] >> shift);
          lower.bits = (unsigned short)(left[2 * r + 1] >> shift);
          c[h] += (float)upper * (float)value;
          c[2 + h] += (float)lower * (float)value;
        }
  }
#endif
}

// Four matrices [8, 8] of half types from shared memory, as tensor cores take their operands: lane l gives the address of
// row l % 8 of matrix l / 8, a multiple of 16 bytes, and gets elements 2 * (l % 4) and the next of row l / 4 of each.
// FLIPPED: of column l / 4, that is, of the matrix transposed. (PTX ISA, ldmatrix.)
template <bool FLIPPED, typename T> __device__ __forceinline__ void load_four(unsigned (&out)[4], const T* row) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const unsigned address = (unsigned)__cvta_generic_to_shared(row);
  if constexpr (FLIPPED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(address) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(address) : "memory");
#else  // the same by shuffles
  const uint4 own = as<const uint4>(row);  // before anybody waits, so that a missing barrier shows
  const unsigned words[4] = {own.x, own.y, own.z, own.w};
  const int lane = threadIdx.x % 32, line = lane / 4, pair = lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const unsigned first = __shfl_sync(~0u, words[w], 8 * i + (FLIPPED ? pair : line));
      if constexpr (FLIPPED) {
        const unsigned second = __shfl_sync(~0u, words[w], 8 * i + pair + 1);
        if (w == line / 2) out[i] = (first >> line % 2 * 16 & 0xffff) | second >> line % 2 * 16 << 16;
      } else if (w == lane % 4) {
        out[i] = first;
      }
    }
#endif
}

// 16 bytes on their way from global to shared memory, or zeros in their place; both addresses are multiples of 16. They are
// there, for the thread that asked, after `arrived`, and for all others after a barrier. (PTX ISA, cp.async.)
__device__ __forceinline__ void send(void* shared, const void* global, bool zeros) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
      :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global), "r"(zeros ? 0 : 16) : "memory");
#else
  CHECK_ALIGNED(shared, uint4);
  if (!zeros) CHECK_ALIGNED(global, uint4);
#ifdef CUDA_ON_CPU
  cuda_on_cpu::send(shared, zeros ? nullptr : global);
#else
  *static_cast<uint4*>(shared) = zeros ? make_uint4(0, 0, 0, 0) : *static_cast<const uint4*>(global);
#endif
#endif
}

// Ends a group of copies.
__device__ __forceinline__ void sent() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#elif defined(CUDA_ON_CPU)
  cuda_on_cpu::sent();
#endif
}

// Waits for all groups of this thread but the last LATER.
template <int LATER> __device__ __forceinline__ void arrived() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(LATER) : "memory");
#elif defined(CUDA_ON_CPU)
  cuda_on_cpu::arrived(LATER);
#endif
}

template <typename T> struct HalfProduct {
  static constexpr int M = 64, N = 128, K = 16, pitch = K + 8;  // rows of 12 words: a warp's reads meet no bank conflict
  struct __align__(16) Tiles {
    T a[M][pitch], b[N][pitch];
    __device__ __forceinline__ void put_a(int m, int k, T value) { a[m][k] = value; }
    __device__ __forceinline__ void put_b(int k, int n, T value) { b[n][k] = value; }
    // 16 bytes at once: those of eight threads, 48 bytes apart, meet no bank conflict; single elements would
    __device__ __forceinline__ void put_b(int n, const T (&column)[K]) {
      unsigned words[K / 2];
#pragma unroll
      for (int k = 0; k < K; k += 2) words[k / 2] = column[k].bits | (unsigned)column[k + 1].bits << 16;
#pragma unroll
      for (int k = 0; k < K; k += 8)
        as<uint4>(&b[n][k]) = make_uint4(words[k / 2], words[k / 2 + 1], words[k / 2 + 2], words[k / 2 + 3]);
    }
  };
  float sums[M / 16][4][4];

  __device__ __forceinline__ HalfProduct() {
    for (auto& row : sums)
      for (auto& tile : row)
        for (float& sum : tile) sum = 0;
  }
  __device__ __forceinline__ void add(const Tiles& tiles) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 32;
    unsigned b[2][4];  // for 16 columns each
#pragma unroll
    for (int j = 0; j < 2; ++j)
      load_four<false>(b[j], &tiles.b[first + j * 16 + lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8]);
#pragma unroll
    for (int i = 0; i < M / 16; ++i) {
      unsigned a[4];
      load_four<false>(a, &tiles.a[i * 16 + lane % 16][lane / 16 * 8]);
#pragma unroll
      for (int j = 0; j < 4; ++j) mma<T>(sums[i][j], a, {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]});
    }
  }
  template <typename F> __device__ __forceinline__ void each(F f) const {
    const int lane = threadIdx.x % 32, row = lane / 4, column = threadIdx.x / 32 * 32 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < M / 16; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int h = 0; h < 4; ++h) f(i * 16 + h / 2 * 8 + row, column + j * 8 + h % 2, sums[i][j][h]);
  }
};
template <> struct Product<float16> : HalfProduct<float16> {};
template <> struct Product<bfloat16> : HalfProduct<bfloat16> {};
