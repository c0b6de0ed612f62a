// The largest element of a line and the sum of exp(element - largest), in one pass; for softmax and cross entropy.
#pragma once

template <typename A> struct Exponentials {
  A top, sum;
};

template <typename A> __device__ __forceinline__ A rescale(A from, A to) {
  return from == -infinity<A>() ? A(0) : exp(from - to);  // nothing summed yet: no inf - inf
}

// Every thread of the line gets the result. Infinities and nan give nan, as in exp(x - max) / sum; -inf alone counts 0.
template <typename A, typename T, typename L> __device__ __forceinline__ Exponentials<A> exponentials(const T* x, const L& line) {
  Exponentials<A> e = {-infinity<A>(), A(0)};
  visit<T>(line, [&](int64, A value) {
    if (value <= e.top) {  // nearly always: one exponential instead of two
      e.sum += rescale(value, e.top);
      return;
    }
    const A top = larger(e.top, value);
    e.sum = e.sum * rescale(e.top, top) + rescale(value, top);
    e.top = top;
  }, x);
  const A top = line.reduce(e.top, Larger());
  return {top, line.sum(e.sum * rescale(e.top, top))};
}
