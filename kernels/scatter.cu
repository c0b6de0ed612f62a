// gather and scatter_add along one dimension.
//
//   gather:       out[o, j, i] = x[o, index[o, j, i], i]
//   scatter_add:  out[o, index[o, j, i], i] += src[o, j, i]
//
// x and the out of scatter_add are C-contiguous [outer, n, inner]; index, src and the out of gather [outer, k, inner].
// A thread for each element of index. gather moves words of the element's size; scatter_add adds atomically, so the last
// bits of floating sums change from run to run. An index that is not in [0, n) stops the kernel with an error.
#include "common.cuh"

template <typename I>
__device__ __forceinline__ int64 place(const I* index, int64 e, int64 k, int64 inner, int64 n) {
  const int64 j = index[e];
  if (j < 0 || j >= n) __trap();
  return (quotient(e, k * inner) * n + j) * inner + rest_of(e, inner);
}

template <typename W, typename I>
__global__ void gather(const W* x, const I* index, W* out, int64 count, int64 k, int64 inner, int64 n) {
  const int64 e = thread_number();
  if (e < count) out[e] = x[place(index, e, k, inner, n)];
}

template <typename T, typename I>
__global__ void scatter_add(const T* src, const I* index, T* out, int64 count, int64 k, int64 inner, int64 n) {
  const int64 e = thread_number();
  if (e < count) atomicAdd(out + place(index, e, k, inner, n), src[e]);
}
