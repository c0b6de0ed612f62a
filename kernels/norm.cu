// layer_norm, rms_norm and group_norm, forward and backward.
//
//   y = (x - mean) * rstd * weight + bias     rstd = 1 / sqrt(mean((x - mean)**2) + eps)     (RMS: mean = 0, no bias)
//   dx = rstd * (gw - mean(gw) - xhat * mean(gw * xhat))   with gw = g * weight, xhat = (x - mean) * rstd
//   dweight = sum(g * xhat), dbias = sum(g) over everything that shares a weight
//
// Statistics are over rows: x is C-contiguous [rows, n]. GROUPED: a row is one of `groups` groups of channels of a
// sample, channels of `inner` elements each, and weights belong to channels; otherwise weights belong to the n columns.
// weight and bias may be null; mean is null with RMS. Storage type T, that of weight, bias and their gradients W (T or
// wide<T>), statistics and sums in wide<T>.
// Rows: launch sizes from rows_launch(rows, n). Cost: rows, but for GROUPED ones, of up to HELD packs a thread (16384 elements of a half type,
// 8192 floats) are held in registers: forward reads x once and writes y, dx reads g and x once; longer ones, and those that
// are no whole packs, are read three times and twice. Weight gradients read g and x once.
#include "common.cuh"

// Once in the code: it is needed in many places, but rarely.
__device__ __noinline__ int64 called_quotient(int64 a, int64 b) { return quotient(a, b); }

// Which weight element j of a row has: with GROUPED one of its channel, which is looked up where another one begins.
template <bool GROUPED> struct Weight {
  int64 first, inner, begin = 0, end = 0, channel = 0;
  __device__ __forceinline__ Weight(int64 row, int64 n, int64 groups, int64 inner)
      : first(GROUPED ? rest_of(row, groups) * quotient(n, inner) : 0), inner(inner) {}
  __device__ __forceinline__ int64 operator()(int64 j) {
    if (!GROUPED) return j;
    if (j < begin || j >= end) {
      channel = called_quotient(j, inner);
      begin = channel * inner, end = begin + inner;
    }
    return first + channel;
  }
};

constexpr int HELD = 2;

// A line of each of some arrays as its threads go over it, again and again: with HOLDS what a thread has of them stays in
// registers where HELD packs are enough for it.
template <typename T, int ARRAYS, bool HOLDS> struct Rows {
  static constexpr int each = Pack<T>::size;
  Pack<T> packs[ARRAYS][HOLDS ? HELD : 1];
  const T* in[ARRAYS];
  bool held;

  __device__ __forceinline__ Rows(const Line<false>& line, const T* out, const T* first, const T* second = nullptr) : in{first} {
    if (ARRAYS == 2) in[ARRAYS - 1] = second;
    held = HOLDS && line.n % each == 0 && line.n <= (int64)HELD * each * line.step && aligned(out) && aligned(first) && aligned(second);
    if (!held) return;
#pragma unroll
    for (int h = 0; h < (HOLDS ? HELD : 0); ++h) {
      const int64 j = place(line, h);
      if (j >= line.n) return;
#pragma unroll
      for (int a = 0; a < ARRAYS; ++a) packs[a][h] = pack_of(in[a] + line.start + j);
    }
  }
  static __device__ __forceinline__ int64 place(const Line<false>& line, int h) {
    return ((int64)line.first + (int64)h * line.step) * each;
  }
  // f(j, first[j], last[j]) for the elements that are this thread's; with one array the last is the first.
  template <typename F> __device__ __forceinline__ void over(const Line<false>& line, F f) const {
    if (!held) {
      if constexpr (ARRAYS == 1) visit<T>(line, [&](int64 j, wide<T> a) { f(j, a, a); }, in[0]);
      else visit<T>(line, [&](int64 j, wide<T> a, wide<T> b) { f(j, a, b); }, in[0], in[1]);
      return;
    }
#pragma unroll
    for (int h = 0; h < (HOLDS ? HELD : 0); ++h) {
      const int64 j = place(line, h);
      if (j >= line.n) return;
#pragma unroll
      for (int k = 0; k < each; ++k) f(j + k, (wide<T>)packs[0][h].at[k], (wide<T>)packs[ARRAYS - 1][h].at[k]);
    }
  }
  // out[j] = f(j, first[j], last[j]) in the same way.
  template <typename F> __device__ __forceinline__ void into(const Line<false>& line, T* out, F f) const {
    if (!held) {
      if constexpr (ARRAYS == 1) fill(line, out, [&](int64 j, wide<T> a) { return f(j, a, a); }, in[0]);
      else fill(line, out, [&](int64 j, wide<T> a, wide<T> b) { return f(j, a, b); }, in[0], in[1]);
      return;
    }
#pragma unroll
    for (int h = 0; h < (HOLDS ? HELD : 0); ++h) {
      const int64 j = place(line, h);
      if (j >= line.n) return;
      Pack<T> results;
#pragma unroll
      for (int k = 0; k < each; ++k)
        results.at[k] = T(f(j + k, (wide<T>)packs[0][h].at[k], (wide<T>)packs[ARRAYS - 1][h].at[k]));
      pack_of(out + line.start + j) = results;
    }
  }
};

template <typename T, typename W, bool RMS, bool GROUPED>
__global__ void norm(const T* x, const W* weight, const W* bias, T* y, wide<T>* mean, wide<T>* rstd, int64 rows, int64 n,
                     int64 groups, int64 inner, double eps) {
  typedef wide<T> A;
  const Line<false> line(rows, n, 1);
  if (!line.valid) return;
  const Rows<T, 1, !GROUPED> row(line, y, x);
  A middle = 0, square = 0;
  if (!RMS) {
    row.over(line, [&](int64, A value, A) { middle += value; });
    middle = line.sum(middle) / n;
  }
  row.over(line, [&](int64, A value, A) { square += (value - middle) * (value - middle); });
  const A scale = A(1) / sqrt(line.sum(square) / n + A(eps));
  if (line.writes()) {
    if (!RMS) mean[line.number] = middle;
    rstd[line.number] = scale;
  }
  Weight<GROUPED> place(line.number, n, groups, inner);
  row.into(line, y, [&](int64 j, A value, A) {
    const int64 k = place(j);
    value = (value - middle) * scale;
    if (weight) value *= (A)weight[k];
    return bias ? value + (A)bias[k] : value;
  });
}

template <typename T, typename W, bool RMS, bool GROUPED>
__global__ void norm_grad(const T* g, const T* x, const wide<T>* mean, const wide<T>* rstd, const W* weight, T* dx,
                          int64 rows, int64 n, int64 groups, int64 inner) {
  typedef wide<T> A;
  const Line<false> line(rows, n, 1);
  if (!line.valid) return;
  const A middle = RMS ? A(0) : mean[line.number], scale = rstd[line.number];
  const Rows<T, 2, !GROUPED> both(line, dx, g, x);
  A shift = 0, slope = 0;
  Weight<GROUPED> place(line.number, n, groups, inner);
  const auto weighted = [&](int64 j, A gj) { return weight ? gj * (A)weight[place(j)] : gj; };
  both.over(line, [&](int64 j, A gj, A value) {
    shift += weighted(j, gj);
    slope += weighted(j, gj) * ((value - middle) * scale);
  });
  shift = RMS ? A(0) : line.sum(shift) / n;
  slope = line.sum(slope) / n;
  both.into(line, dx, [&](int64 j, A gj, A value) {
    return scale * (weighted(j, gj) - shift - (value - middle) * scale * slope);
  });
}

// For each column of [rows, n] the sums of g * xhat and of g over one of gridDim.y parts of the rows: [parts, n] each.
// Blocks of 32 packs of columns x 8 rows.
template <typename T, bool RMS>
__global__ void norm_columns(const T* g, const T* x, const wide<T>* mean, const wide<T>* rstd, wide<T>* products,
                             wide<T>* totals, int64 rows, int64 n) {
  typedef wide<T> A;
  constexpr int each = Pack<T>::size;
  const int64 column = ((int64)blockIdx.x * 32 + threadIdx.x) * each, per_part = (rows + gridDim.y - 1) / gridDim.y;
  const int64 end = min((int64)(blockIdx.y + 1) * per_part, rows);
  const bool packs = n % each == 0 && aligned(g) && aligned(x);
  A product[each] = {}, total[each] = {};
  if (column < n)
    for (int64 row = blockIdx.y * per_part + threadIdx.y; row < end; row += 8) {
      const Pack<T> gs = read_pack(g + row * n + column, n - column, packs);
      const Pack<T> xs = read_pack(x + row * n + column, n - column, packs);
      const A middle = RMS ? A(0) : mean[row], scale = rstd[row];
#pragma unroll
      for (int k = 0; k < each; ++k) {
        product[k] += (A)gs.at[k] * (((A)xs.at[k] - middle) * scale);
        total[k] += (A)gs.at[k];
      }
    }
  __shared__ A sums[2][8][each][32];
#pragma unroll
  for (int k = 0; k < each; ++k) {
    sums[0][threadIdx.y][k][threadIdx.x] = product[k];
    sums[1][threadIdx.y][k][threadIdx.x] = total[k];
  }
  __syncthreads();
  if (threadIdx.y != 0) return;
#pragma unroll
  for (int k = 0; k < each; ++k) {
    if (column + k >= n) return;
    for (int row = 1; row < 8; ++row) {
      product[k] += sums[0][row][k][threadIdx.x];
      total[k] += sums[1][row][k][threadIdx.x];
    }
    products[blockIdx.y * n + column + k] = product[k];
    totals[blockIdx.y * n + column + k] = total[k];
  }
}

// The same for channels: x is [samples * groups * per group, inner], one row of threads for each (sample, channel).
template <typename T>
__global__ void norm_channels(const T* g, const T* x, const wide<T>* mean, const wide<T>* rstd, wide<T>* products,
                              wide<T>* totals, int64 lines, int64 inner, int64 per_group) {
  typedef wide<T> A;
  const Line<false> line(lines, inner, 1);
  if (!line.valid) return;
  const A middle = mean[line.number / per_group], scale = rstd[line.number / per_group];
  A product = 0, total = 0;
  visit<T>(line, [&](int64, A gj, A value) {
    product += gj * ((value - middle) * scale);
    total += gj;
  }, g, x);
  product = line.sum(product);
  total = line.sum(total);
  if (line.writes()) {
    products[line.number] = product;
    totals[line.number] = total;
  }
}

// Sums over the parts: [parts, n] to [n], for both arrays; a null result is left out. Sizes from parts_launch(n, parts).
template <typename W>
__global__ void norm_parts(const wide<W>* products, const wide<W>* totals, W* dweight, W* dbias, int64 parts, int64 n) {
  typedef wide<W> A;
  const int64 column = (int64)blockIdx.x * 32 + threadIdx.x;
  const bool inside = column < n;
  const A product = parts_sum<A>(parts, inside, [=](int64 part) { return products[part * n + column]; });
  const A total = parts_sum<A>(parts, inside, [=](int64 part) { return totals[part * n + column]; });
  if (threadIdx.y != 0 || !inside) return;
  if (dweight) dweight[column] = W(product);
  if (dbias) dbias[column] = W(total);
}
