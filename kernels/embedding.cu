// Rows of a table by number, and the gradient: rows of g added up by number.
//
//   forward:  out[i] = table[index[i]]        backward:  out[r] = sum of g[i] over i with index[i] == r
//
// table and out are C-contiguous [rows, width], g is [count, width], index [count]. Rows with the number `padding` get
// no gradient. Backward in three ways: adding atomically onto zeros (the order of the additions, and so the last bits,
// change from run to run); the same for half types, where an entry of each number is its owner, the others are added up
// in float in a row of the owner's, and each row of out is written once, as the rounded sum of both; or from the sorted
// numbers, where one row of threads adds up all entries of a number in order (repeatable; sums in wide<T>; BY_COUNT
// divides by how many there are). A number that is not in [0, rows) stops the kernel with an error.
// Cost: atomic: reads g once, reads and writes a row of out for each entry; half types: reads g once, writes out once,
// and reads and writes floats for entries that are no owners.
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

// owners: zeros [rows]; becomes for each number 1 + the entry that owns it. several [count] becomes zeros.
template <typename I>
__global__ void claim_rows(const I* index, int* owners, int* several, int64 count, int64 rows, int64 padding) {
  const int64 i = thread_number();
  if (i >= count) return;
  const int64 row = index[i];
  if (row < 0 || row >= rows) __trap();
  several[i] = 0;
  if (row != padding) atomicCAS(owners + row, 0, (int)i + 1);
}

// For entries that are no owners: without ADD zeros in their owner's row of sums [count, width], and `several` set for it;
// with ADD the elements of g added there. A thread for each element of g.
template <typename T, typename I, bool ADD>
__global__ void join_rows(const T* g, const I* index, const int* owners, int* several, float* sums, int64 count, int64 width,
                          int64 padding) {
  const int64 i = thread_number();
  if (i >= count * width) return;
  const int64 entry = quotient(i, width), row = index[entry];
  if (row == padding) return;
  const int64 owner = owners[row] - 1, column = i - entry * width;
  if (owner == entry) return;
  if (ADD) {
    atomicAdd(sums + owner * width + column, (float)g[i]);
  } else {
    sums[owner * width + column] = 0;
    if (column == 0) several[owner] = 1;
  }
}

// out: what the owner of each row has, and the sums of the others. A thread for a Pack of elements.
template <typename T>
__global__ void own_rows(const T* g, const int* owners, const int* several, const float* sums, T* out, int64 width, int64 rows) {
  const int64 first = thread_number() * Pack<T>::size, size = rows * width;
  if (first >= size) return;
  Pack<T> pack = {};
  int64 shift = 0;  // from a place in out to the same in the owner's row
  bool owned = false, more = false;
  const auto enter = [&](int64 row) {
    const int64 owner = owners[row] - 1;
    owned = owner >= 0, more = owned && several[owner];
    shift = (owner - row) * width;
  };
  const int64 row = quotient(first, width);
  if (width % Pack<T>::size == 0 && aligned(g)) {
    enter(row);
    if (owned) pack = pack_of(g + first + shift);
    if (more)
#pragma unroll
      for (int k = 0; k < Pack<T>::size; ++k) pack.at[k] = T((float)pack.at[k] + sums[first + shift + k]);
  } else {
    walk<T>(first, size, rows, width, enter, [&](int k) {
      const int64 from = first + shift + k;
      pack.at[k] = T(owned ? (float)g[from] + (more ? sums[from] : 0.0f) : 0.0f);
    });
  }
  write_pack(out + first, pack, size - first, aligned(out));
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
