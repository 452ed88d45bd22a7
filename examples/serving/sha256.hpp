// SHA-256 (FIPS 180-4), which the C++ library lacks.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

inline std::string sha256(const void *data, size_t size) {
  // The constants are the first 32 bits of the fractions of the square and
  // cube roots of the first primes.
  std::array<uint32_t, 64> k{};
  std::array<uint32_t, 8> h{};
  size_t primes = 0;
  for (int n = 2; primes < k.size(); n++) {
    bool prime = true;
    for (int d = 2; d * d <= n && prime; d++) prime = n % d != 0;
    if (!prime) continue;
    const auto fraction = [](long double root) {
      return static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L);
    };
    if (primes < h.size()) h[primes] = fraction(std::sqrt(static_cast<long double>(n)));
    k[primes++] = fraction(std::cbrt(static_cast<long double>(n)));
  }
  // Padding: a one bit, zeros, the length in bits.
  const auto *bytes = static_cast<const uint8_t *>(data);
  std::vector<uint8_t> message(bytes, bytes + size);
  message.push_back(0x80);
  while (message.size() % 64 != 56) message.push_back(0);
  for (int i = 7; i >= 0; i--) message.push_back(static_cast<uint8_t>(static_cast<uint64_t>(size) * 8 >> (8 * i)));

  const auto rotate = [](uint32_t x, int n) { return x >> n | x << (32 - n); };
  for (size_t block = 0; block < message.size(); block += 64) {
    std::array<uint32_t, 64> w{};
    for (size_t i = 0; i < 64; i++) w[i / 4] = w[i / 4] << 8 | message[block + i];
    for (size_t i = 16; i < 64; i++) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    auto s = h;
    for (size_t i = 0; i < 64; i++) {
      const uint32_t t1 = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
                          ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
      const uint32_t t2 =
          (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
    }
    for (size_t i = 0; i < h.size(); i++) h[i] += s[i];
  }
  std::string hex;
  for (const uint32_t word : h)
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 15];
  return hex;
}
