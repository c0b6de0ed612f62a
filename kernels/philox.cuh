// Philox 4x32-10: random numbers as a function of a key and a counter, so that threads need no state of their own.
// J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011.
#pragma once

// Four random words for counter (low, high, 0, 0) and key `seed`.
__device__ __forceinline__ uint4 philox(uint64 counter, uint64 seed) {
  uint4 c = make_uint4((unsigned)counter, (unsigned)(counter >> 32), 0u, 0u);
  unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned low0 = 0xD2511F53u * c.x, high0 = __umulhi(0xD2511F53u, c.x);
    const unsigned low1 = 0xCD9E8D57u * c.z, high1 = __umulhi(0xCD9E8D57u, c.z);
    c = make_uint4(high1 ^ c.y ^ k0, low1, high0 ^ c.w ^ k1, low0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}
