// Work on many tensors in one launch.
//
// A Table holds up to TENSORS tensors and is passed by value, so that nothing is copied from the host and a captured
// launch keeps it. Tensor t has size[t] elements; at[a][t] is where its array number a begins (0: none), number[k][t] its
// number k. Blocks share the tensors out in pieces of PIECE elements: first[t] is the number of the first block of tensor
// t, blocks have THREADS threads.
#pragma once
#include "common.cuh"

constexpr int TENSORS = 48, THREADS = 256, PIECE = 16 * THREADS;

template <int ARRAYS, int NUMBERS> struct Table {
  uint64 at[ARRAYS][TENSORS];
  double number[NUMBERS][TENSORS];
  int64 size[TENSORS];
  int first[TENSORS];
  int count, unused;
};

// Which tensor this block works on, and its piece of it.
struct Piece {
  int tensor;
  int64 begin, end;
  template <typename Table> __device__ __forceinline__ Piece(const Table& table) {
    tensor = 0;
    while (tensor + 1 < table.count && table.first[tensor + 1] <= (int)blockIdx.x) ++tensor;
    begin = (int64)(blockIdx.x - table.first[tensor]) * PIECE;
    end = min(begin + PIECE, table.size[tensor]);
  }
  template <typename T, typename Table> __device__ __forceinline__ T* array(const Table& table, int which) const {
    return reinterpret_cast<T*>(table.at[which][tensor]);
  }
};
