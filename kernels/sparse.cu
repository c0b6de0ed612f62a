// Products with a sparse matrix whose values stand row after row: those of row r from starts[r] to starts[r + 1], each in
// the column cols[i]. Value i is values[order[i]]; order may be null: i itself.
//
//   rows_times:  out[r, j] = sum over the values of row r of value * other[column, j]     other [columns, width]
//   dots:        out[i] = sum over j of self[rows[i], j] * other[cols[i], j]              self, other [.., width]
//
// self, other and out are C-contiguous, numbers of places int64. Blocks of 256 threads. rows_times: a row of `across` threads
// (a power of two up to 32) for as many columns, `parts` such rows (a power of two) share the values of one row of the
// matrix, 256 / (across * parts) rows to a block; gridDim.y blocks of columns. dots: `across` threads for each value.
// Sums are in wide<T> and rounded once; their order depends on the sizes alone, so results are the same in every run.
// Cost: rows_times reads values and places once for each `across` columns, a row of other for each value. No temporaries.
#include "common.cuh"

// The sum of what `parts` threads have that are `step` apart, at the first of them. All threads of a block take part.
template <typename A>
__device__ A sum_of_parts(A sum, int part, int parts, int step) {
  __shared__ A sums[256];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = parts / 2; half > 0; half /= 2) {
    if (part < half) sums[threadIdx.x] += sums[threadIdx.x + half * step];
    __syncthreads();
  }
  return sums[threadIdx.x];
}

template <typename T>
__global__ void rows_times(const T* values, const int64* order, const int64* starts, const int64* cols, const T* other, T* out,
                           int64 rows, int64 width, int across, int parts) {
  typedef wide<T> A;
  const int lane = threadIdx.x % across, part = threadIdx.x / across % parts, line = threadIdx.x / (across * parts);
  const int64 row = (int64)blockIdx.x * (256 / (across * parts)) + line, column = (int64)blockIdx.y * across + lane;
  const bool here = row < rows && column < width;
  A sum = 0;
  if (here)
    for (int64 i = starts[row] + part; i < starts[row + 1]; i += parts)
      sum += (A)values[order ? order[i] : i] * (A)other[cols[i] * width + column];
  sum = sum_of_parts(sum, part, parts, across);
  if (here && part == 0) out[row * width + column] = T(sum);
}

template <typename T>
__global__ void dots(const T* self, const T* other, const int64* rows, const int64* cols, T* out, int64 count, int64 width,
                     int across) {
  typedef wide<T> A;
  const int lane = threadIdx.x % across;
  const int64 i = (int64)blockIdx.x * (256 / across) + threadIdx.x / across;
  A sum = 0;
  if (i < count)
    for (int64 j = lane; j < width; j += across) sum += (A)self[rows[i] * width + j] * (A)other[cols[i] * width + j];
  sum = sum_of_parts(sum, lane, across, 1);
  if (i < count && lane == 0) out[i] = T(sum);
}
