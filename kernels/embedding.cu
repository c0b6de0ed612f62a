// Rows of a table by number, and the gradient: rows of g added up by number.
//
//   forward:  out[i] = table[index[i]]        backward:  out[r] = sum of g[i] over i with index[i] == r
//
// table and out are C-contiguous [rows, width], g is [count, width], index [count]. Rows with the number `padding` get
// no gradient. Backward in two ways: adding atomically onto zeros (the order of the additions, and so the last bits,
// change from run to run), or from the sorted numbers, where one row of threads adds up all entries of a number in
// order (repeatable; also for half types, whose sums are kept in float; BY_COUNT divides by how many there are).
// A number that is not in [0, rows) stops the kernel with an error.
#include "common.cuh"

// A thread moves 16 bytes, as one where rows are whole multiples of that.
template <typename W, typename I>
__global__ void take_rows(const W* table, const I* index, W* out, int64 count, int64 width, int64 rows) {
  constexpr int each = 16 / sizeof(W);
  const int64 first = thread_number() * each;
  const bool whole = width % each == 0 && (uint64)table % 16 == 0 && (uint64)out % 16 == 0;
  for (int64 i = first; i < min(first + each, count * width); ++i) {
    const int64 line = quotient(i, width), row = index[line];
    if (row < 0 || row >= rows) __trap();
    const W* from = table + row * width + (i - line * width);
    if (whole) {
      as<uint4>(out + i) = as<const uint4>(from);
      return;
    }
    out[i] = *from;
  }
}

template <typename T, typename I>
__global__ void add_rows(const T* g, const I* index, T* out, int64 count, int64 width, int64 rows, int64 padding) {
  const int64 i = thread_number();
  if (i >= count * width) return;
  const int64 row = index[quotient(i, width)];
  if (row < 0 || row >= rows) __trap();
  if (row != padding) atomicAdd(out + row * width + rest_of(i, width), g[i]);
}

constexpr int RUN = 8;

// sorted: the numbers in ascending order; order[i]: the entry that sorted[i] came from. A thread for each (i, column);
// blockIdx.y counts parts of 256 columns. Only the first entry of each run of equal numbers does anything.
template <typename T, typename I, bool BY_COUNT>
__global__ void add_sorted_rows(const T* g, const I* sorted, const int64* order, T* out, int64 count, int64 width,
                                int64 rows, int64 padding) {
  const int64 first = blockIdx.x, column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
  const int64 row = sorted[first];
  if (row < 0 || row >= rows) __trap();
  if (column >= width || row == padding || (first > 0 && (int64)sorted[first - 1] == row)) return;
  wide<T> sum = 0;
  int64 i = first;
  for (; i + RUN <= count && (int64)sorted[i + RUN - 1] == row; i += RUN) {  // several loads under way at once
    wide<T> terms[RUN];
#pragma unroll
    for (int k = 0; k < RUN; ++k) terms[k] = g[order[i + k] * width + column];
#pragma unroll
    for (int k = 0; k < RUN; ++k) sum += terms[k];
  }
  for (; i < count && (int64)sorted[i] == row; ++i) sum += (wide<T>)g[order[i] * width + column];
  out[row * width + column] = T(BY_COUNT ? sum / wide<T>(i - first) : sum);
}
