// What CuPy's reductions use of cub::BlockLoad.
#pragma once

namespace cub {

enum BlockLoadAlgorithm { BLOCK_LOAD_DIRECT };

template <typename T, int THREADS, int ITEMS, BlockLoadAlgorithm> class BlockLoad {
 public:
  struct TempStorage {};
  explicit BlockLoad(TempStorage&) {}

  // Neighbours of the first `valid` numbers; T(fill) in the places behind them.
  template <typename From, typename Fill> void Load(From from, T (&items)[ITEMS], int valid, Fill fill) {
    for (int k = 0; k < ITEMS; ++k) {
      const int at = threadIdx.x * ITEMS + k;
      items[k] = at < valid ? T(from[at]) : T(fill);
    }
  }
};

}  // namespace cub
