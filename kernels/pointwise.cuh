// What generated elementwise kernels call beyond CUDA's own functions; with NumPy's treatment of nan and signs.
#pragma once

template <typename A> __device__ __forceinline__ A smaller(A a, A b) { return a < b || a != a ? a : b; }

// The remainder with the sign of b.
template <typename A> __device__ __forceinline__ A floored_remainder(A a, A b) {
  const A rest = fmod(a, b);
  if (rest == A(0)) return copysign(rest, b);
  return (rest < A(0)) != (b < A(0)) ? rest + b : rest;
}

// log(exp(a) + exp(b)) without overflow.
template <typename A> __device__ __forceinline__ A log_add_exp(A a, A b) {
  if (a == b) return a + log(A(2));
  const A distance = a - b;
  if (distance > A(0)) return a + log1p(exp(-distance));
  if (distance <= A(0)) return b + log1p(exp(distance));
  return distance;  // nan
}
