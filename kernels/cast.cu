// Copies in another floating type: one array, or many tensors in one launch (lists.cuh).
//
// cast: in, out: size elements side by side. A thread takes a Pack of neighbours (4), one by one where they are not
// aligned: blocks of any size, together with a thread for each 4 elements.
// cast_list: at[0][t] is where T goes, at[1][t] the float32 it comes from; blocks of THREADS threads for PIECE elements.
// Rounded to the nearest, ties to even, as the array library does. Cost: every element is read and written once.
#include "lists.cuh"

// Elements i ... i + count - 1; `whole` means that all are there and aligned.
template <typename S, typename T> __device__ __forceinline__ void convert(const S* in, T* out, int64 i, int64 count, bool whole) {
  if (whole && count >= 4) {
    const Pack<S, 4> from = pack_of<S, 4>(in + i);
    Pack<T, 4> to;
#pragma unroll
    for (int k = 0; k < 4; ++k) to.at[k] = T((wide<S>)from.at[k]);
    pack_of<T, 4>(out + i) = to;
    return;
  }
  for (int64 k = i; k < i + min(count, (int64)4); ++k) out[k] = T((wide<S>)in[k]);
}

template <typename S, typename T> __global__ void cast(const S* in, T* out, int64 size) {
  const int64 i = thread_number() * 4;
  if (i < size) convert(in, out, i, size - i, aligned<S, 4>(in) && aligned<T, 4>(out));
}

template <typename T> __global__ void cast_list(Table<2, 1> table) {
  const Piece piece(table);
  const float* in = piece.array<const float>(table, 1);
  T* out = piece.array<T>(table, 0);
  const bool whole = aligned<float, 4>(in) && aligned<T, 4>(out);
  for (int64 i = piece.begin + threadIdx.x * 4; i < piece.end; i += blockDim.x * 4) convert(in, out, i, piece.end - i, whole);
}
