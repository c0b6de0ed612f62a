// What CuPy's reductions use of cub::BlockReduce. As there, the result is that of the first thread alone.
#pragma once

namespace cub {

template <typename T, int THREADS> class BlockReduce {
 public:
  struct TempStorage { alignas(T) char room[THREADS * sizeof(T)]; };
  explicit BlockReduce(TempStorage& storage) : parts(reinterpret_cast<T*>(storage.room)) {}

  template <int ITEMS, typename Op> T Reduce(T (&items)[ITEMS], Op op) {
    const int own = threadIdx.x;
    T sum = items[0];
    for (int k = 1; k < ITEMS; ++k) sum = op(sum, items[k]);
    parts[own] = sum;
    for (int step = THREADS / 2; step; step /= 2) {
      __syncthreads();
      if (own < step) parts[own] = op(parts[own], parts[own + step]);
    }
    return own ? sum : parts[0];
  }

 private:
  T* parts;
};

}  // namespace cub
