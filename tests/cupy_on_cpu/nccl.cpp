// NCCL between processes of one machine, over shared memory: what CuPy's extension module `nccl` calls.
//
// A communicator is a file in shared memory, named by its unique id: for each rank its process and a cell that all read,
// for each pair of ranks a cell for messages. A collective goes chunk by chunk: each rank writes its cell, all meet, each
// reads what it needs, all meet. Work runs when it is enqueued, as kernels do here, so a call returns when all ranks have
// come. Waits end with an error when a process is gone or the communicator was aborted.
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include <vector_types.h>
#include <vector_functions.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" int cuda_on_cpu_enqueue(void* stream, std::function<int()>* work);  // takes `work` over
extern "C" int cuda_on_cpu_is_capturing(void* stream);
extern "C" int cuda_on_cpu_is_device(const void* p);

namespace {

enum { kSuccess = 0, kCudaError = 1, kSystemError = 2, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6 };
enum { kInt8, kUint8, kInt32, kUint32, kInt64, kUint64, kHalf, kFloat, kDouble, kBfloat16, kTypes };
enum { kSum, kProduct, kMax, kMin, kAverage };
const size_t kSizes[kTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
constexpr int kMaxRanks = 8;
constexpr size_t kCell = size_t(1) << 16;

struct Cell { std::atomic<size_t> full; char data[kCell]; };  // full: bytes of a message that nobody has taken
struct Shared {
  std::atomic<int> pid[kMaxRanks];
  std::atomic<unsigned> arrived, round, failed;
  char cells[kMaxRanks][kCell];
  Cell pairs[kMaxRanks][kMaxRanks];  // [from][to]
};
struct Id { char bytes[128]; };
struct Communicator {
  Shared* shared;
  int rank, size, device;
  std::atomic<int> error{0};
  std::string name;
};

struct Message { Communicator* c; char* data; size_t left; int peer; bool sending; };
thread_local int depth = 0;
thread_local std::vector<std::pair<void*, std::function<int()>>> grouped;  // collectives of a group
thread_local std::vector<std::pair<void*, Message>> messages;              // its sends and receives

// Whether a process has ended, its parent may not have asked for it yet.
bool ended(int pid) {
  char path[32], state = 'Z';
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE* f = fopen(path, "r");
  if (!f) return true;
  if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 'Z';
  fclose(f);
  return state == 'Z' || state == 'X';
}

// Called while nothing moves: 0, or why nothing will.
int trouble(Communicator* c, unsigned& idle) {
  if (c->error) return c->error;
  if (c->shared->failed) return c->error = kRemoteError;
  if (++idle < 200) return 0;
  if (idle % 64 == 0)
    for (int r = 0; r < c->size; ++r)
      if (int pid = c->shared->pid[r]; pid && ended(pid)) {
        c->shared->failed = 1;
        return c->error = kRemoteError;
      }
  timespec nap = {0, 50000};
  nanosleep(&nap, nullptr);
  return 0;
}

int meet(Communicator* c) {
  Shared* s = c->shared;
  unsigned round = s->round, idle = 0;
  if (s->arrived.fetch_add(1) + 1 == unsigned(c->size)) {
    s->arrived = 0;
    s->round.fetch_add(1);
    return 0;
  }
  while (s->round == round)
    if (int e = trouble(c, idle)) return e;
  return 0;
}

// `give(at)` is what this rank gives from byte `at` on (null for nothing), `take(at, n)` reads n bytes of each cell.
int exchange(Communicator* c, size_t bytes, const std::function<const char*(size_t)>& give,
             const std::function<void(size_t, size_t)>& take) {
  for (size_t at = 0; at < bytes; at += kCell) {
    size_t n = std::min(kCell, bytes - at);
    if (const char* from = give(at)) memcpy(c->shared->cells[c->rank], from, n);
    if (int e = meet(c)) return e;
    take(at, n);
    if (int e = meet(c)) return e;
  }
  return 0;
}

template <class T> auto up(T x) {
  if constexpr (std::is_same_v<T, __half>) return __half2float(x);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __bfloat162float(x);
  else return x;
}
template <class T, class V> T down(V x) {
  if constexpr (std::is_same_v<T, __half>) return __float2half(x);
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return __float2bfloat16(x);
  else return T(x);
}
template <class T> void reduce_cells(Communicator* c, char* into, size_t bytes, int op) {
  T* out = reinterpret_cast<T*>(into);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) {
    auto total = up(reinterpret_cast<T*>(c->shared->cells[0])[i]);
    for (int r = 1; r < c->size; ++r) {
      auto x = up(reinterpret_cast<T*>(c->shared->cells[r])[i]);
      if (op == kSum || op == kAverage) total = total + x;
      else if (op == kProduct) total = total * x;
      else if (op == kMax) total = total < x || total != total ? x : total;  // a NaN loses, as in NCCL
      else total = x < total || total != total ? x : total;
    }
    if (op == kAverage) total = total / c->size;
    out[i] = down<T>(total);
  }
}
void reduce_into(Communicator* c, char* out, size_t bytes, int type, int op) {
  switch (type) {
    case kInt8: return reduce_cells<signed char>(c, out, bytes, op);
    case kUint8: return reduce_cells<unsigned char>(c, out, bytes, op);
    case kInt32: return reduce_cells<int>(c, out, bytes, op);
    case kUint32: return reduce_cells<unsigned>(c, out, bytes, op);
    case kInt64: return reduce_cells<long long>(c, out, bytes, op);
    case kUint64: return reduce_cells<unsigned long long>(c, out, bytes, op);
    case kHalf: return reduce_cells<__half>(c, out, bytes, op);
    case kFloat: return reduce_cells<float>(c, out, bytes, op);
    case kDouble: return reduce_cells<double>(c, out, bytes, op);
    default: return reduce_cells<__nv_bfloat16>(c, out, bytes, op);
  }
}

// The stream is asked whether it exists; the runtime's lock is not held while ranks wait for each other.
int run(void* stream, const std::function<int()>& work) {
  if (cuda_on_cpu_enqueue(stream, new std::function<int()>([] { return 0; }))) return kCudaError;
  return work();
}

// Sends and receives of a group move side by side: none waits for another.
int move_all(std::vector<std::pair<void*, Message>>& all) {
  unsigned idle = 0;
  for (size_t left = all.size(); left;) {
    bool moved = false;
    std::vector<const void*> busy;  // messages between two ranks keep their order: the first unfinished one is served
    for (auto& [stream, m] : all) {
      if (!m.left) continue;
      Shared* s = m.c->shared;
      Cell* cell = m.sending ? &s->pairs[m.c->rank][m.peer] : &s->pairs[m.peer][m.c->rank];
      const void* end = m.sending ? static_cast<const void*>(&cell->full) : static_cast<const void*>(cell->data);
      if (std::count(busy.begin(), busy.end(), end)) continue;
      busy.push_back(end);
      size_t n = std::min(m.left, kCell);
      if (m.sending == (cell->full != 0)) continue;
      if (m.sending) {
        memcpy(cell->data, m.data, n);
        cell->full = n;
      } else {
        if (cell->full != n) return m.c->error = kInvalidUsage;  // not the same size on both sides
        memcpy(m.data, cell->data, n);
        cell->full = 0;
      }
      m.data += n, m.left -= n, moved = true, idle = 0;
      left -= !m.left;
    }
    if (!moved)
      for (auto& [stream, m] : all)
        if (int e = trouble(m.c, idle)) return e;
  }
  return 0;
}

bool usable(Communicator* c, int type, std::initializer_list<const void*> pointers, void* stream) {
  if (!c || c->error || type < 0 || type >= kTypes || cuda_on_cpu_is_capturing(stream)) return false;
  for (const void* p : pointers)
    if (p && !cuda_on_cpu_is_device(p)) return false;
  return true;
}

int collective(Communicator* c, void* stream, std::function<int()> work) {
  if (depth) {
    grouped.emplace_back(stream, std::move(work));
    return kSuccess;
  }
  return run(stream, std::move(work));
}

int message(Message m, int type, void* stream) {
  if (!usable(m.c, type, {m.data}, stream) || m.peer < 0 || m.peer >= m.c->size) return kInvalidArgument;
  messages.emplace_back(stream, m);
  if (depth) return kSuccess;
  auto all = std::move(messages);
  messages.clear();
  return run(stream, [&] { return move_all(all); });
}

}  // namespace

#define NCCL extern "C" __attribute__((visibility("default")))

NCCL int ncclGetVersion(int* version) { *version = 22100; return kSuccess; }
NCCL int ncclGetUniqueId(Id* id) {
  memset(id, 0, sizeof *id);
  FILE* f = fopen("/dev/urandom", "rb");
  bool good = f && fread(id->bytes, 1, 16, f) == 16;
  if (f) fclose(f);
  return good ? kSuccess : kSystemError;
}
NCCL const char* ncclGetErrorString(int e) {
  return e == kRemoteError ? "remote process exited or there was a network error" : e == kInvalidUsage ? "invalid usage"
       : e == kInvalidArgument ? "invalid argument" : e == kCudaError ? "unhandled cuda error" : e ? "unhandled system error" : "no error";
}
NCCL int ncclCommInitRankConfig(Communicator** out, int size, Id id, int rank, void*) {
  if (size < 1 || size > kMaxRanks || rank < 0 || rank >= size) return kInvalidArgument;
  std::string name = "/gradlib_nccl_";
  for (int i = 0; i < 16; ++i) {
    char hex[3];
    snprintf(hex, 3, "%02x", (unsigned char)id.bytes[i]);
    name += hex;
  }
  int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared))) return kSystemError;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return kSystemError;
  auto* c = new Communicator{static_cast<Shared*>(memory), rank, size, 0};
  c->name = name;
  c->shared->pid[rank] = getpid();
  if (int e = meet(c)) return e;
  if (rank == 0) shm_unlink(name.c_str());  // all have it open
  *out = c;
  return kSuccess;
}
NCCL int ncclCommInitAll(Communicator**, int, const int*) { return kInvalidUsage; }
NCCL int ncclCommSplit(Communicator*, int, int, Communicator**, void*) { return kInvalidUsage; }
NCCL int ncclCommAbort(Communicator* c) {
  c->error = kSystemError;  // what waits in another thread still looks at it: the few bytes are not given back
  return kSuccess;
}
NCCL int ncclCommDestroy(Communicator* c) {
  munmap(c->shared, sizeof(Shared));
  delete c;
  return kSuccess;
}
NCCL int ncclCommGetAsyncError(Communicator* c, int* error) { *error = c->error; return kSuccess; }
NCCL int ncclCommCount(Communicator* c, int* n) { *n = c->size; return kSuccess; }
NCCL int ncclCommCuDevice(Communicator* c, int* n) { *n = c->device; return kSuccess; }
NCCL int ncclCommUserRank(Communicator* c, int* n) { *n = c->rank; return kSuccess; }

NCCL int ncclGroupStart() { ++depth; return kSuccess; }
NCCL int ncclGroupEnd() {
  if (--depth) return kSuccess;
  auto work = std::move(grouped);
  auto all = std::move(messages);
  grouped.clear(), messages.clear();
  for (auto& [stream, job] : work)
    if (int e = run(stream, job)) return e;
  return all.empty() ? kSuccess : run(all[0].first, [&] { return move_all(all); });
}

NCCL int ncclSend(const void* data, size_t n, int type, int peer, Communicator* c, void* stream) {
  char* from = static_cast<char*>(const_cast<void*>(data));
  return message({c, from, n * kSizes[type], peer, true}, type, stream);
}
NCCL int ncclRecv(void* data, size_t n, int type, int peer, Communicator* c, void* stream) {
  return message({c, static_cast<char*>(data), n * kSizes[type], peer, false}, type, stream);
}
NCCL int ncclAllReduce(const void* in, void* out, size_t n, int type, int op, Communicator* c, void* stream) {
  if (!usable(c, type, {in, out}, stream)) return kInvalidArgument;
  return collective(c, stream, [=] {
    auto give = [=](size_t at) { return static_cast<const char*>(in) + at; };
    return exchange(c, n * kSizes[type], give, [=](size_t at, size_t m) { reduce_into(c, static_cast<char*>(out) + at, m, type, op); });
  });
}
NCCL int ncclReduce(const void* in, void* out, size_t n, int type, int op, int root, Communicator* c, void* stream) {
  if (!usable(c, type, {in}, stream)) return kInvalidArgument;
  return collective(c, stream, [=] {
    auto give = [=](size_t at) { return static_cast<const char*>(in) + at; };
    return exchange(c, n * kSizes[type], give, [=](size_t at, size_t m) {
      if (c->rank == root) reduce_into(c, static_cast<char*>(out) + at, m, type, op);
    });
  });
}
NCCL int ncclBroadcast(const void* in, void* out, size_t n, int type, int root, Communicator* c, void* stream) {
  if (!usable(c, type, {out}, stream)) return kInvalidArgument;
  return collective(c, stream, [=] {
    auto give = [=](size_t at) { return c->rank == root ? static_cast<const char*>(in) + at : nullptr; };
    return exchange(c, n * kSizes[type], give, [=](size_t at, size_t m) { memcpy(static_cast<char*>(out) + at, c->shared->cells[root], m); });
  });
}
NCCL int ncclBcast(void* data, size_t n, int type, int root, Communicator* c, void* stream) {
  return ncclBroadcast(data, data, n, type, root, c, stream);
}
NCCL int ncclAllGather(const void* in, void* out, size_t n, int type, Communicator* c, void* stream) {
  if (!usable(c, type, {in, out}, stream)) return kInvalidArgument;
  return collective(c, stream, [=] {
    size_t bytes = n * kSizes[type];
    auto give = [=](size_t at) { return static_cast<const char*>(in) + at; };
    return exchange(c, bytes, give, [=](size_t at, size_t m) {
      for (int r = 0; r < c->size; ++r) memcpy(static_cast<char*>(out) + r * bytes + at, c->shared->cells[r], m);
    });
  });
}
NCCL int ncclReduceScatter(const void* in, void* out, size_t n, int type, int op, Communicator* c, void* stream) {
  if (!usable(c, type, {in, out}, stream)) return kInvalidArgument;
  return collective(c, stream, [=] {
    size_t bytes = n * kSizes[type];
    for (int to = 0; to < c->size; ++to) {
      auto give = [=](size_t at) { return static_cast<const char*>(in) + to * bytes + at; };
      int e = exchange(c, bytes, give, [=](size_t at, size_t m) {
        if (c->rank == to) reduce_into(c, static_cast<char*>(out) + at, m, type, op);
      });
      if (e) return e;
    }
    return int(kSuccess);
  });
}
