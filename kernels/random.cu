// Random words.
//
//   out[i] = philox(counter + i / 4, seed)[i % 4]
//
// out is [size], dense; state is [2]: seed and counter, on the device. A thread makes four words; philox_advance (dropout.cu)
// moves the counter past them. Cost: writes out once.
#include "common.cuh"
#include "philox.cuh"

__global__ void philox_words(unsigned* out, const uint64* state, int64 size) {
  const int64 thread = thread_number(), first = thread * 4;
  if (first >= size) return;
  const uint4 words = philox(state[1] + (uint64)thread, state[0]);
  if (first + 4 <= size && (uint64)out % sizeof(uint4) == 0) {
    as<uint4>(out + first) = words;
    return;
  }
  const unsigned word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (first + k < size) out[first + k] = word[k];
}
