// Sums and means over neighbouring dimensions: out[o, i] = factor * sum over j of x[o, j, i], x C-contiguous
// [outer, n, inner].
//
// A long sum is cut into gridDim.y parts. With one part the result is written to out; with more, or with an outer
// dimension that is summed over, too, the parts' sums go to partial [parts, outer * inner] (wide<T>, null: none) and
// sum_parts adds them up: the order of additions never changes.
// *_rows: inner is 1, blocks from rows_launch(outer, length of a part). sum_columns: blocks of 32 packs of columns x 8 rows,
// blockIdx.x = line of blocks over inner, blockIdx.z = outer. sum_parts: grid and block from parts_launch. Half types are added up in float, without a float copy.
// Cost: reads x once.
#include "common.cuh"

template <typename T>
__global__ void sum_rows(const T* x, wide<T>* partial, T* out, int64 outer, int64 n, double factor) {
  typedef wide<T> A;
  constexpr int each = Pack<T>::size;
  const int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y;
  const int64 size = ((n + gridDim.y - 1) / gridDim.y + each - 1) / each * each;  // of a part
  if (row >= outer) return;
  const int64 first = blockIdx.y * size, end = min(first + size, n);
  A sum = 0;
  if (n % each == 0 && aligned(x)) {
    for (int64 j = first + threadIdx.x * each; j < end; j += blockDim.x * each) {
      const Pack<T> pack = pack_of(x + row * n + j);
      for (int k = 0; k < each; ++k) sum += (A)pack.at[k];
    }
  } else {
    for (int64 j = first + threadIdx.x; j < end; j += blockDim.x) sum += (A)x[row * n + j];
  }
  sum = combine<true>(sum, Add());
  if (threadIdx.x != 0) return;
  if (partial) partial[blockIdx.y * outer + row] = sum;
  else out[row] = T(sum * A(factor));
}

template <typename T>
__global__ void sum_columns(const T* x, wide<T>* partial, T* out, int64 n, int64 inner, double factor) {
  typedef wide<T> A;
  constexpr int each = Pack<T>::size;
  const int64 column = ((int64)blockIdx.x * 32 + threadIdx.x) * each, size = (n + gridDim.y - 1) / gridDim.y;
  const int64 end = min((int64)(blockIdx.y + 1) * size, n);
  const bool packs = inner % each == 0 && aligned(x);
  A sum[each] = {};
  if (column < inner)
    for (int64 j = blockIdx.y * size + threadIdx.y; j < end; j += 8) {
      const Pack<T> pack = read_pack(x + (blockIdx.z * n + j) * inner + column, inner - column, packs);
#pragma unroll
      for (int k = 0; k < each; ++k) sum[k] += (A)pack.at[k];
    }
  __shared__ A sums[8][each][32];
#pragma unroll
  for (int k = 0; k < each; ++k) sums[threadIdx.y][k][threadIdx.x] = sum[k];
  __syncthreads();
  if (threadIdx.y != 0) return;
#pragma unroll
  for (int k = 0; k < each; ++k) {
    if (column + k >= inner) return;
    for (int row = 1; row < 8; ++row) sum[k] += sums[row][k][threadIdx.x];
    const int64 place = blockIdx.z * inner + column + k;
    if (partial) partial[blockIdx.y * (gridDim.z * inner) + place] = sum[k];
    else out[place] = T(sum[k] * A(factor));
  }
}

template <typename T>
__global__ void sum_parts(const wide<T>* partial, T* out, int64 parts, int64 lines, double factor) {
  const int64 line = (int64)blockIdx.x * 32 + threadIdx.x;
  const wide<T> sum = parts_sum<wide<T>>(parts, line < lines, [=](int64 part) { return partial[part * lines + line]; });
  if (threadIdx.y == 0 && line < lines) out[line] = T(sum * wide<T>(factor));
}
