// The floors of this machine: argv[1] threads multiply and add in registers, copy a buffer far larger than the caches,
// and read it. Prints "<FLOP/s> <bytes read and written per second> <bytes read per second>", the best of several rounds.
// With a second argument only "<FLOP/s> <FLOP/s>" of the multiply-adds and of AMX tiles (0 without), once: what the machine
// does now. The two threads of a core share its tiles, and two of different virtual machines may be on one core.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#if defined(__AMX_BF16__) || defined(__AMXBF16__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__AVX512F__)
constexpr int lanes = 16, chains = 24;
#elif defined(__AVX__)
constexpr int lanes = 8, chains = 12;
#else
constexpr int lanes = 4, chains = 12;
#endif
typedef float vec __attribute__((vector_size(lanes * sizeof(float))));

template <class Body> double seconds(int threads, Body body) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) pool.emplace_back(body, t);
  for (auto &thread : pool) thread.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// `chains` independent accumulators hide the latency of the multiply-add.
float multiply_add(long rounds) {
  volatile float scale = 0.5f;  // unknown to the compiler, which would leave out the sum that starts at its limit
  vec sum[chains], factor;
  for (int lane = 0; lane < lanes; ++lane) factor[lane] = scale;
  for (int c = 0; c < chains; ++c) sum[c] = factor * float(c);
  for (long r = 0; r < rounds; ++r)
#pragma GCC unroll 32
    for (int c = 0; c < chains; ++c) sum[c] = sum[c] * factor + factor;
  float total = 0;
  for (int c = 0; c < chains; ++c)
    for (int lane = 0; lane < lanes; ++lane) total += sum[c][lane];
  return total;
}

// The sum of a buffer: one stream of whole vectors, in as many sums as hide the latency of an addition.
float read_all(const char *from, std::size_t bytes) {
  constexpr std::size_t sums = 8;
  vec sum[sums] = {};
  for (std::size_t at = 0; at + sums * sizeof(vec) <= bytes; at += sums * sizeof(vec))
#pragma GCC unroll 8
    for (std::size_t k = 0; k < sums; ++k) {
      vec v;
      std::memcpy(&v, from + at + k * sizeof(vec), sizeof(vec));
      sum[k] += v;
    }
  float total = 0;
  for (const vec &v : sum)
    for (int lane = 0; lane < lanes; ++lane) total += v[lane];
  return total;
}

#if defined(__AMX_BF16__) || defined(__AMXBF16__)
// Products of four pairs of tiles of 16 x 32 bf16; false where the system does not grant tiles.
bool multiply_tiles(long rounds) {
  constexpr long ARCH_PRCTL = 158, REQUEST = 0x1023, TILE_DATA = 18;
  if (syscall(ARCH_PRCTL, REQUEST, TILE_DATA) != 0) return false;
  struct {
    unsigned char palette = 1, start = 0, unused[14] = {};
    unsigned short bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    unsigned char rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shape;
  asm volatile("ldtilecfg %0\n\ttilezero %%tmm4\n\ttilezero %%tmm5" : : "m"(shape));
  for (long r = 0; r < rounds; ++r)
    asm volatile("tdpbf16ps %tmm5, %tmm4, %tmm0\n\ttdpbf16ps %tmm5, %tmm4, %tmm1\n\t"
                 "tdpbf16ps %tmm5, %tmm4, %tmm2\n\ttdpbf16ps %tmm5, %tmm4, %tmm3");
  asm volatile("tilerelease");
  return true;
}
#else
bool multiply_tiles(long) { return false; }
#endif

// FLOP/s of `threads` threads; 0 where there are no tiles.
double tile_flops(int threads, long rounds) {
  if (!multiply_tiles(1)) return 0;
  const double s = seconds(threads, [&](int) { multiply_tiles(rounds); });
  return 4.0 * 2 * 16 * 16 * 32 * rounds * threads / s;
}

int main(int argc, char **argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const long rounds = 1'000'000;
  const std::size_t part = (std::size_t(512) << 20) / threads;
  std::vector<float> sink(threads * 64);
  const auto flops_of = [&](long rounds) {
    const double s = seconds(threads, [&](int t) { sink[t * 64] = multiply_add(rounds); });
    return 2.0 * rounds * chains * lanes * threads / s;
  };
  if (argc > 2) {
    const double flops = flops_of(2 * rounds);
    std::printf("%.6g %.6g %g\n", flops, tile_flops(threads, rounds / 2), double(sink[0]));
    return 0;
  }
  std::vector<std::unique_ptr<char[]>> from(threads), to(threads);
  seconds(threads, [&](int t) {
    from[t].reset(new char[part]);
    to[t].reset(new char[part]);
    std::memset(from[t].get(), t + 1, part);
    std::memset(to[t].get(), 0, part);
  });
  double flops = 0, bytes = 0, reads = 0;
  for (int round = 0; round < 20; ++round) {
    flops = std::max(flops, flops_of(rounds));
    const double s = seconds(threads, [&](int t) { std::memcpy(to[t].get(), from[t].get(), part); });
    bytes = std::max(bytes, 2.0 * part * threads / s);
    const double r = seconds(threads, [&](int t) { sink[t * 64] = read_all(from[t].get(), part); });
    reads = std::max(reads, 1.0 * part * threads / r);
  }
  std::printf("%.6g %.6g %.6g %g\n", flops, bytes, reads, double(sink[0]));
}
