// layer_norm, rms_norm and group_norm, forward and backward.
//
//   y = (x - mean) * rstd * weight + bias     rstd = 1 / sqrt(mean((x - mean)**2) + eps)     (RMS: mean = 0, no bias)
//   dx = rstd * (gw - mean(gw) - xhat * mean(gw * xhat))   with gw = g * weight, xhat = (x - mean) * rstd
//   dweight = sum(g * xhat), dbias = sum(g) over everything that shares a weight
//
// Statistics are over rows: x is C-contiguous [rows, n]. GROUPED: a row is one of `groups` groups of channels of a
// sample, channels of `inner` elements each, and weights belong to channels; otherwise weights belong to the n columns.
// weight and bias may be null; mean is null with RMS. Storage type T, statistics and sums in wide<T>.
// Rows: launch sizes from rows_launch(rows, n). Cost: forward reads x three times (twice from cache as a rule) and
// writes y; dx reads g and x twice; weight gradients read g and x once.
#include "common.cuh"

template <bool GROUPED> __device__ __forceinline__ int64 weight_of(int64 row, int64 j, int64 n, int64 groups, int64 inner) {
  return GROUPED ? rest_of(row, groups) * quotient(n, inner) + quotient(j, inner) : j;
}

template <typename T, bool RMS, bool GROUPED>
__global__ void norm(const T* x, const T* weight, const T* bias, T* y, wide<T>* mean, wide<T>* rstd, int64 rows, int64 n,
                     int64 groups, int64 inner, double eps) {
  typedef wide<T> A;
  const Line<false> line(rows, n, 1);
  if (!line.valid) return;
  A middle = 0, square = 0;
  if (!RMS) {
    visit<T>(line, [&](int64, A value) { middle += value; }, x);
    middle = line.sum(middle) / n;
  }
  visit<T>(line, [&](int64, A value) { square += (value - middle) * (value - middle); }, x);
  const A scale = A(1) / sqrt(line.sum(square) / n + A(eps));
  if (line.writes()) {
    if (!RMS) mean[line.number] = middle;
    rstd[line.number] = scale;
  }
  fill(line, y, [=](int64 j, A value) {
    const int64 k = weight_of<GROUPED>(line.number, j, n, groups, inner);
    value = (value - middle) * scale;
    if (weight) value *= (A)weight[k];
    return bias ? value + (A)bias[k] : value;
  }, x);
}

template <typename T, bool RMS, bool GROUPED>
__global__ void norm_grad(const T* g, const T* x, const wide<T>* mean, const wide<T>* rstd, const T* weight, T* dx,
                          int64 rows, int64 n, int64 groups, int64 inner) {
  typedef wide<T> A;
  const Line<false> line(rows, n, 1);
  if (!line.valid) return;
  const A middle = RMS ? A(0) : mean[line.number], scale = rstd[line.number];
  A shift = 0, slope = 0;
  const auto weighted = [=](int64 j, A gj) {
    return weight ? gj * (A)weight[weight_of<GROUPED>(line.number, j, n, groups, inner)] : gj;
  };
  visit<T>(line, [&](int64 j, A gj, A value) {
    shift += weighted(j, gj);
    slope += weighted(j, gj) * ((value - middle) * scale);
  }, g, x);
  shift = RMS ? A(0) : line.sum(shift) / n;
  slope = line.sum(slope) / n;
  fill(line, dx, [=](int64 j, A gj, A value) {
    return scale * (weighted(j, gj) - shift - (value - middle) * scale * slope);
  }, g, x);
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
template <typename T>
__global__ void norm_parts(const wide<T>* products, const wide<T>* totals, T* dweight, T* dbias, int64 parts, int64 n) {
  typedef wide<T> A;
  const int64 column = (int64)blockIdx.x * 32 + threadIdx.x;
  const bool inside = column < n;
  const A product = parts_sum<A>(parts, inside, [=](int64 part) { return products[part * n + column]; });
  const A total = parts_sum<A>(parts, inside, [=](int64 part) { return totals[part * n + column]; });
  if (threadIdx.y != 0 || !inside) return;
  if (dweight) dweight[column] = T(product);
  if (dbias) dbias[column] = T(total);
}
