// The steps of LSTM and GRU cells after their matrix products, and their gradients; one thread for each element of a state.
//
//   LSTM, gates [rows, 4 n] = i f g o:  c' = s(f) c + s(i) tanh(g),  h' = s(o) tanh(c')
//   GRU, x and hidden [rows, 3 n] = r z n:  r = s(xr + hr), z = s(xz + hz), m = tanh(xn + r hn), h' = (h - m) z + m
//
// s is the logistic function. States are [rows, n]; all arrays are C-contiguous, `size` is rows * n. Gradients compute the
// activations again instead of reading them. Grid: blocks_for(size), 256 threads. Cost: every argument is read and every
// result written once: 7 numbers for an element of an LSTM's state forward, 13 backward; 8 and 15 for a GRU.
#include "common.cuh"

template <typename A> __device__ __forceinline__ A logistic(A x) { return A(1) / (A(1) + exp(-x)); }

// Where element i of a state is, and its gate k in a row of `parts` * n numbers.
struct Place {
  int64 row, column, n;
  __device__ __forceinline__ Place(int64 i, int64 n) : row(quotient(i, n)), column(i - row * n), n(n) {}
  __device__ __forceinline__ int64 gate(int k, int parts) const { return (row * parts + k) * n + column; }
};

// The activations of an element's gates.
template <typename A> struct Lstm {
  A input, forget, made, output;
  template <typename T>
  __device__ __forceinline__ Lstm(const T* gates, const Place& p)
      : input(logistic((A)gates[p.gate(0, 4)])), forget(logistic((A)gates[p.gate(1, 4)])),
        made(tanh((A)gates[p.gate(2, 4)])), output(logistic((A)gates[p.gate(3, 4)])) {}
};
template <typename A> struct Gru {
  A own, r, z, made;  // own: the part of the state before it
  template <typename T>
  __device__ __forceinline__ Gru(const T* x, const T* hidden, const Place& p)
      : own((A)hidden[p.gate(2, 3)]), r(logistic((A)x[p.gate(0, 3)] + (A)hidden[p.gate(0, 3)])),
        z(logistic((A)x[p.gate(1, 3)] + (A)hidden[p.gate(1, 3)])), made(tanh((A)x[p.gate(2, 3)] + r * own)) {}
};

template <typename T>
__global__ void lstm_step(const T* gates, const T* c, T* h, T* next, int64 n, int64 size) {
  typedef wide<T> A;
  const int64 i = thread_number();
  if (i >= size) return;
  const Lstm<A> a(gates, Place(i, n));
  const A state = a.forget * (A)c[i] + a.input * a.made;
  next[i] = T(state);
  h[i] = T(a.output * tanh(state));
}

// to_h and to_c are the gradients of h' and c'; one of them may be null.
template <typename T>
__global__ void lstm_step_grad(const T* to_h, const T* to_c, const T* gates, const T* c, const T* next, T* to_gates,
                               T* to_old, int64 n, int64 size) {
  typedef wide<T> A;
  const int64 i = thread_number();
  if (i >= size) return;
  const Place p(i, n);
  const Lstm<A> a(gates, p);
  const A t = tanh((A)next[i]), from_h = to_h ? (A)to_h[i] : A(0);
  const A total = from_h * a.output * (A(1) - t * t) + (to_c ? (A)to_c[i] : A(0));
  to_gates[p.gate(0, 4)] = T(total * a.made * a.input * (A(1) - a.input));
  to_gates[p.gate(1, 4)] = T(total * (A)c[i] * a.forget * (A(1) - a.forget));
  to_gates[p.gate(2, 4)] = T(total * a.input * (A(1) - a.made * a.made));
  to_gates[p.gate(3, 4)] = T(from_h * t * a.output * (A(1) - a.output));
  to_old[i] = T(total * a.forget);
}

template <typename T>
__global__ void gru_step(const T* x, const T* hidden, const T* h, T* next, int64 n, int64 size) {
  typedef wide<T> A;
  const int64 i = thread_number();
  if (i >= size) return;
  const Gru<A> a(x, hidden, Place(i, n));
  next[i] = T(((A)h[i] - a.made) * a.z + a.made);
}

template <typename T>
__global__ void gru_step_grad(const T* g, const T* x, const T* hidden, const T* h, T* to_x, T* to_hidden, T* to_h, int64 n,
                              int64 size) {
  typedef wide<T> A;
  const int64 i = thread_number();
  if (i >= size) return;
  const Place p(i, n);
  const Gru<A> a(x, hidden, p);
  const A grad = g[i], to_made = grad * (A(1) - a.z) * (A(1) - a.made * a.made);
  const A to_r = to_made * a.own * a.r * (A(1) - a.r), to_z = grad * ((A)h[i] - a.made) * a.z * (A(1) - a.z);
  to_x[p.gate(0, 3)] = to_hidden[p.gate(0, 3)] = T(to_r);
  to_x[p.gate(1, 3)] = to_hidden[p.gate(1, 3)] = T(to_z);
  to_x[p.gate(2, 3)] = T(to_made);
  to_hidden[p.gate(2, 3)] = T(to_made * a.r);
  to_h[i] = T(grad * a.z);
}
