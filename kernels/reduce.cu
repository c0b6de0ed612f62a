// Sums and means over neighbouring dimensions: out[o, i] = factor * sum over j of x[o, j, i], x C-contiguous
// [outer, n, inner].
//
// A long sum is cut into gridDim.y parts. With one part the result is written to out; with more the parts' sums go to
// partial [parts, outer * inner] (wide<T>) and sum_parts adds them up: the order of additions never changes.
// *_rows: inner is 1, blocks from rows_launch(outer, length of a part). *_columns: blocks of 32 columns x 8 rows,
// blockIdx.x = line of blocks over inner, blockIdx.z = outer. Half types are added up in float, without a float copy.
// Cost: reads x once.
#include "common.cuh"

template <typename T>
__global__ void sum_rows(const T* x, wide<T>* partial, T* out, int64 outer, int64 n, double factor) {
  typedef wide<T> A;
  const int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y, size = (n + gridDim.y - 1) / gridDim.y;
  if (row >= outer) return;
  const int64 end = min((int64)(blockIdx.y + 1) * size, n);
  A sum = 0;
  for (int64 j = blockIdx.y * size + threadIdx.x; j < end; j += blockDim.x) sum += (A)x[row * n + j];
  sum = combine<true>(sum, Add());
  if (threadIdx.x != 0) return;
  if (gridDim.y == 1) out[row] = T(sum * A(factor));
  else partial[blockIdx.y * outer + row] = sum;
}

template <typename T>
__global__ void sum_columns(const T* x, wide<T>* partial, T* out, int64 n, int64 inner, double factor) {
  typedef wide<T> A;
  const int64 column = (int64)blockIdx.x * 32 + threadIdx.x, size = (n + gridDim.y - 1) / gridDim.y;
  const int64 end = min((int64)(blockIdx.y + 1) * size, n);
  A sum = 0;
  if (column < inner)
    for (int64 j = blockIdx.y * size + threadIdx.y; j < end; j += 8) sum += (A)x[(blockIdx.z * n + j) * inner + column];
  __shared__ A sums[8][32];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= inner) return;
  for (int row = 1; row < 8; ++row) sum += sums[row][threadIdx.x];
  const int64 place = blockIdx.z * inner + column;
  if (gridDim.y == 1) out[place] = T(sum * A(factor));
  else partial[blockIdx.y * (gridDim.z * inner) + place] = sum;
}

template <typename T>
__global__ void sum_parts(const wide<T>* partial, T* out, int64 parts, int64 lines, double factor) {
  const int64 line = thread_number();
  if (line >= lines) return;
  wide<T> sum = 0;
  for (int64 part = 0; part < parts; ++part) sum += partial[part * lines + line];
  out[line] = T(sum * wide<T>(factor));
}
