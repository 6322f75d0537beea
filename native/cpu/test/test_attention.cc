// Paged attention: against the definition, and equal bits for any block size, batch, thread count and neighbours.
#include <algorithm>

#include "check.h"
#include "reference.h"

namespace millrace::test {

namespace {

struct Shape {
  int64_t numHeads;
  int64_t numKvHeads;
  int64_t headDim;
  KvType type;
  int64_t window;
  double cap = 0;
  bool hasSinks = false;
};

// Sequences of K and V, [position][kvHead][headDim], and the rows that ask.
struct Scene {
  Shape shape;
  std::vector<std::vector<float>> keys;
  std::vector<std::vector<float>> values;
  std::vector<int32_t> lengths;
  std::vector<int32_t> sequences;
  std::vector<float> q;
  float scale;
  // Leading entries that every sequence has in common with the first.
  int64_t numShared = 0;
};

// Some far below all scores, some above them.
std::vector<float> sinksOf(const Shape& shape) {
  std::vector<float> sinks;
  for (int64_t head = 0; head < shape.numHeads; head++) sinks.push_back(static_cast<float>(head % 3) * 4.0f - 3.5f);
  return sinks;
}

// How a scene is laid out and run.
struct Setting {
  int numThreads = 1;
  int64_t blockSize = 16;
  // Common entries lie in the first sequence's blocks only.
  bool isStoredOnce = false;
  bool sharesKvReads = true;
};

struct Outcome {
  std::vector<float> out;
  int64_t kvBytesRead;
  int64_t kvBytesUnshared;
};

// One head's stored vector, read as kv_cache.h lays it out.
std::vector<float> entryAt(const KvGeometry& kv, const uint8_t* octet, int64_t lane, bool isKey) {
  const auto at = [&](int64_t start, int64_t i, int64_t numParts, int64_t size) {
    return octet + start + size * (isKey ? i * 8 + lane : lane * numParts + i);
  };
  const auto powerOf = [&] { return std::ldexp(1.0, octet[kv.exponentsOffset() + lane] - 127); };
  // An E5M2 code is an f16's upper half; E4M3's exponent has a bias of 7 in place of 15.
  const auto e4m3 = [](uint8_t code) { return referenceFromHalf(static_cast<uint16_t>((code & 0x80) << 8 | (code & 0x7f) << 7)); };
  const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::vector<float> result;
  for (int64_t d = 0; d < kv.headDim; d++) {
    double value = 0;
    float wide;
    uint16_t half;
    switch (kv.type) {
      case KvType::f32: memcpy(&wide, at(0, d, kv.headDim, 4), 4), value = static_cast<double>(wide); break;
      case KvType::f16: memcpy(&half, at(0, d, kv.headDim, 2), 2), value = referenceFromHalf(half); break;
      case KvType::int8:
        memcpy(&wide, octet + kv.scalesOffset() + 4 * lane, 4);
        value = static_cast<double>(static_cast<float>(static_cast<int8_t>(*at(0, d, kv.headDim, 1))) * wide);
        break;
      case KvType::fp8_e5m2: value = referenceFromHalf(static_cast<uint16_t>(*at(0, d, kv.headDim, 1) << 8)); break;
      case KvType::fp8_e4m3: value = e4m3(*at(0, d, kv.headDim, 1)) * powerOf(); break;
      case KvType::fp4: {
        const int64_t group = d / 16, i = d % 16;
        const bool isHigh = isKey ? i % 2 == 1 : i >= 8;
        const uint8_t pair = *at(0, group * 8 + (isKey ? i / 2 : i % 8), kv.numGroups() * 8, 1);
        const int code = isHigh ? pair >> 4 : pair & 15;
        value = e2m1[code & 7] * (code > 7 ? -1 : 1) * e4m3(*at(kv.scalesOffset(), group, kv.numGroups(), 1)) * powerOf();
      }
    }
    result.push_back(static_cast<float>(value));
  }
  return result;
}

struct Caches {
  std::vector<uint8_t> keys;
  std::vector<uint8_t> values;
};

// Caches of numBlocks blocks with an entry of every position at its slot; all other bytes are 0xff, NaN where a type
// has it.
Caches store(const char* isa, const KvGeometry& kv, int64_t numBlocks, const std::vector<float>& keys, const std::vector<float>& values,
             const std::vector<int32_t>& slots) {
  Bench bench(isa, 1);
  const int64_t numBytes = numBlocks * kv.blockSize * kv.numKvHeads * kv.entryBytes();
  const std::vector<uint8_t> empty(static_cast<size_t>(numBytes), 0xff);
  const double keyCache = bench.put(empty);
  const double valueCache = bench.put(empty);
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  bench.record(OpCode::ropeAndWriteKv, {bench.put(keys), bench.put(keys), bench.put(values), bench.allocate(4), keyCache, valueCache, bench.put(slots),
                                        number(static_cast<int64_t>(slots.size())), number(kv.numKvHeads), number(kv.numKvHeads), number(kv.headDim),
                                        number(kv.blockSize), static_cast<double>(kv.type), 0, 0, 0});
  bench.run();
  return {bench.get<uint8_t>(keyCache, numBytes), bench.get<uint8_t>(valueCache, numBytes)};
}

Scene makeScene(const Shape& shape, const std::vector<int64_t>& sequenceLengths, const std::vector<int32_t>& lengths, const std::vector<int32_t>& sequences, Random& random) {
  Scene scene{shape, {}, {}, lengths, sequences, {}, 0.3f, 0};
  for (int64_t length : sequenceLengths) {
    scene.keys.push_back(random.values(length * shape.numKvHeads * shape.headDim));
    scene.values.push_back(random.values(length * shape.numKvHeads * shape.headDim));
  }
  scene.q = random.values(static_cast<int64_t>(lengths.size()) * shape.numHeads * shape.headDim, 2.0f);
  return scene;
}

// Runs rows `order` of the scene; blocks are handed out in a scattered order, spare entries are NaN.
Outcome runSetting(const char* isa, const Setting& setting, const Scene& scene, const std::vector<size_t>& order) {
  const int64_t blockSize = setting.blockSize;
  const Shape& shape = scene.shape;
  const int64_t perEntry = shape.numKvHeads * shape.headDim;
  int64_t stride = 1;
  int64_t numBlocks = 0;
  for (const auto& keys : scene.keys) {
    const int64_t blocks = (static_cast<int64_t>(keys.size()) / perEntry + blockSize - 1) / blockSize;
    stride = std::max(stride, blocks);
    numBlocks += blocks;
  }
  const KvGeometry kv{shape.numHeads, shape.numKvHeads, shape.headDim, blockSize, shape.type};
  std::vector<int32_t> tables(scene.keys.size() * static_cast<size_t>(stride), -1);
  int64_t next = numBlocks;
  std::vector<float> allKeys, allValues;
  std::vector<int32_t> slots;
  for (size_t s = 0; s < scene.keys.size(); s++) {
    const int64_t length = static_cast<int64_t>(scene.keys[s].size()) / perEntry;
    for (int64_t position = 0; position < length; position++) {
      int32_t& block = tables[s * static_cast<size_t>(stride) + static_cast<size_t>(position / blockSize)];
      if (position % blockSize == 0) {
        const bool isCommon = setting.isStoredOnce && s > 0 && position + blockSize <= scene.numShared;
        block = isCommon ? tables[static_cast<size_t>(position / blockSize)] : static_cast<int32_t>(--next);
      }
      slots.push_back(static_cast<int32_t>(block * blockSize + position % blockSize));
    }
    allKeys.insert(allKeys.end(), scene.keys[s].begin(), scene.keys[s].end());
    allValues.insert(allValues.end(), scene.values[s].begin(), scene.values[s].end());
  }
  const Caches caches = store(isa, kv, numBlocks, allKeys, allValues, slots);
  const int64_t rowValues = shape.numHeads * shape.headDim;
  std::vector<float> q;
  std::vector<int32_t> lengths, sequences;
  for (size_t m : order) {
    q.insert(q.end(), scene.q.begin() + static_cast<int64_t>(m) * rowValues, scene.q.begin() + static_cast<int64_t>(m + 1) * rowValues);
    lengths.push_back(scene.lengths[m]);
    sequences.push_back(scene.sequences[m]);
  }
  Bench bench(isa, setting.numThreads, setting.sharesKvReads);
  const double out = bench.allocate(static_cast<int64_t>(q.size()) * 4);
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  bench.record(OpCode::pagedAttention, {out, bench.put(q), bench.put(caches.keys), bench.put(caches.values), bench.put(lengths), bench.put(sequences), bench.put(tables),
                                        number(stride), number(static_cast<int64_t>(order.size())), number(shape.numHeads), number(shape.numKvHeads),
                                        number(shape.headDim), number(blockSize), static_cast<double>(shape.type), scene.scale, number(shape.window), shape.cap, shape.hasSinks ? bench.put(sinksOf(shape)) : 0, 0, 0});
  bench.run();
  return {bench.get<float>(out, static_cast<int64_t>(q.size())), bench.device.kvBytesRead(), bench.device.kvBytesUnshared()};
}

std::vector<float> runScene(const char* isa, int numThreads, const Scene& scene, int64_t blockSize, const std::vector<size_t>& order) {
  return runSetting(isa, {numThreads, blockSize, false, true}, scene, order).out;
}

std::vector<double> expectedScene(const char* isa, const Scene& scene) {
  const Shape& shape = scene.shape;
  std::vector<double> result;
  for (size_t m = 0; m < scene.lengths.size(); m++) {
    const size_t s = static_cast<size_t>(scene.sequences[m]);
    const KvGeometry kv{shape.numKvHeads, shape.numKvHeads, shape.headDim, 8, shape.type};
    const int64_t length = static_cast<int64_t>(scene.keys[s].size()) / (shape.numKvHeads * shape.headDim);
    std::vector<int32_t> slots;
    for (int32_t position = 0; position < length; position++) slots.push_back(position);
    const Caches caches = store(isa, kv, (length + 7) / 8, scene.keys[s], scene.values[s], slots);
    std::vector<float> keys, values;
    for (int64_t position = 0; position < length; position++) {
      for (int64_t head = 0; head < shape.numKvHeads; head++) {
        const int64_t offset = kv.octetOffset(position / 8, head, 0);
        const std::vector<float> key = entryAt(kv, &caches.keys[static_cast<size_t>(offset)], position % 8, true);
        const std::vector<float> value = entryAt(kv, &caches.values[static_cast<size_t>(offset)], position % 8, false);
        keys.insert(keys.end(), key.begin(), key.end());
        values.insert(values.end(), value.begin(), value.end());
      }
    }
    const int64_t start = shape.window > 0 ? std::max<int64_t>(0, scene.lengths[m] - shape.window) : 0;
    for (int64_t head = 0; head < shape.numHeads; head++) {
      const int64_t kvHead = head / (shape.numHeads / shape.numKvHeads);
      std::vector<const float*> keyRows, valueRows;
      for (int64_t j = start; j < scene.lengths[m]; j++) {
        keyRows.push_back(&keys[static_cast<size_t>((j * shape.numKvHeads + kvHead) * shape.headDim)]);
        valueRows.push_back(&values[static_cast<size_t>((j * shape.numKvHeads + kvHead) * shape.headDim)]);
      }
      const float* q = &scene.q[(m * static_cast<size_t>(shape.numHeads) + static_cast<size_t>(head)) * static_cast<size_t>(shape.headDim)];
      const std::vector<double> one = referenceAttention(q, keyRows, valueRows, shape.headDim, scene.scale, shape.cap, shape.hasSinks ? static_cast<double>(sinksOf(shape)[static_cast<size_t>(head)]) : -HUGE_VAL);
      result.insert(result.end(), one.begin(), one.end());
    }
  }
  return result;
}

void checkScene(const char* isa, const Scene& scene, const std::string& name) {
  std::vector<size_t> order(scene.lengths.size());
  for (size_t i = 0; i < order.size(); i++) order[i] = i;
  const std::vector<float> got = runScene(isa, 1, scene, 16, order);
  check(isClose(got, expectedScene(isa, scene), 6e-6, 6e-6), name + " equals the definition");
  for (int64_t blockSize : {8, 24, 32, 512}) check(sameBits(runScene(isa, 2, scene, blockSize, order), got), name + " in blocks of " + std::to_string(blockSize));
  check(sameBits(runScene(isa, 3, scene, 16, order), got), name + " on 3 threads");
  const size_t rowValues = static_cast<size_t>(scene.shape.numHeads * scene.shape.headDim);
  bool isSame = true;
  for (size_t m : order) {
    const std::vector<float> alone = runScene(isa, 1, scene, 16, {m});
    isSame = isSame && memcmp(alone.data(), &got[m * rowValues], rowValues * 4) == 0;
  }
  check(isSame, name + " row by row");
}

// Sequences that begin alike: however their blocks are stored and read, the bits are the same, and what is shared is
// read once.
void checkShared(const char* isa, const Shape& shape, Random& random) {
  const std::string name = std::string("shared prefixes ") + isa + " " + std::to_string(shape.numHeads) + "/" + std::to_string(shape.numKvHeads);
  // Sequence 4 has a part of the prefix less, 5 is no longer than it, and one sequence has two rows.
  const std::vector<int64_t> sequenceLengths = {1100, 1030, 1025, 1300, 800, 1024};
  const std::vector<int32_t> sequences = {3, 0, 1, 1, 2, 4, 5};
  std::vector<int32_t> lengths;
  for (int32_t sequence : sequences) lengths.push_back(static_cast<int32_t>(sequenceLengths[static_cast<size_t>(sequence)]));
  lengths[2]--;
  Scene scene = makeScene(shape, sequenceLengths, lengths, sequences, random);
  scene.numShared = 1024;
  const size_t perEntry = static_cast<size_t>(shape.numKvHeads * shape.headDim);
  for (size_t s = 1; s < scene.keys.size(); s++) {
    const size_t numCommon = std::min(scene.keys[s].size(), 1024 * perEntry);
    std::copy_n(scene.keys[0].begin(), numCommon, scene.keys[s].begin());
    std::copy_n(scene.values[0].begin(), numCommon, scene.values[s].begin());
  }
  std::vector<size_t> order(sequences.size());
  for (size_t i = 0; i < order.size(); i++) order[i] = i;
  const std::vector<float> wanted = runScene(isa, 1, scene, 16, order);
  check(isClose(wanted, expectedScene(isa, scene), 3e-6, 3e-6), name + " equal the definition");
  for (int numThreads : {1, 2, 5}) {
    for (int64_t blockSize : {8, 16, 32, 512}) {
      for (bool sharesKvReads : {true, false}) {
        const Outcome got = runSetting(isa, {numThreads, blockSize, true, sharesKvReads}, scene, order);
        const std::string what = name + " on " + std::to_string(numThreads) + " threads in blocks of " + std::to_string(blockSize);
        check(sameBits(got.out, wanted), what);
        const bool isFewer = got.kvBytesRead < got.kvBytesUnshared / 2;
        const int64_t ownBytes = (1300 + 1100 + 1030 + 1025 + 800 + 1024) * 2 * shape.numKvHeads * KvGeometry{shape.numHeads, shape.numKvHeads, shape.headDim, 8, shape.type}.entryBytes();
        check(got.kvBytesUnshared == ownBytes && (sharesKvReads && shape.window == 0 ? isFewer : got.kvBytesRead == ownBytes), what + ": bytes read");
      }
    }
  }
}

}  // namespace

void testAttention() {
  Random random(4);
  const Shape shapes[] = {{4, 2, 16, KvType::f16, 0}, {3, 3, 7, KvType::f32, 0}, {6, 1, 24, KvType::f16, 20}, {2, 1, 64, KvType::f32, 300}, {8, 2, 80, KvType::f16, 0}, {2, 1, 256, KvType::f16, 0}, {4, 2, 40, KvType::int8, 0}, {3, 1, 7, KvType::int8, 30}, {4, 2, 16, KvType::f16, 0, 1.5}, {3, 1, 7, KvType::f32, 300, 0.5}, {4, 2, 16, KvType::f16, 0, 0, true}, {3, 1, 7, KvType::int8, 300, 0, true}, {4, 2, 40, KvType::fp8_e4m3, 0}, {3, 1, 7, KvType::fp8_e5m2, 30}, {4, 2, 40, KvType::fp4, 0}, {3, 1, 7, KvType::fp4, 300, 0, true}, {2, 1, 64, KvType::fp4, 20}};
  for (const char* isa : isas()) {
    for (const Shape& shape : shapes) {
      const std::string name = std::string("attention ") + isa + " " + std::to_string(shape.numHeads) + "/" + std::to_string(shape.numKvHeads) + " heads of " + std::to_string(shape.headDim) + " of type " + std::to_string(static_cast<int>(shape.type));
      checkScene(isa, makeScene(shape, {1, 9, 257, 600}, {1, 9, 0, 257, 600, 512}, {0, 1, 1, 2, 3, 3}, random), name + ", decoding");
      // A chunk of one prompt beside others: rows of the same sequence are computed together.
      std::vector<int32_t> lengths = {5};
      std::vector<int32_t> sequences = {0};
      for (int32_t i = 0; i < 18; i++) {
        lengths.push_back(248 + i);
        sequences.push_back(1);
      }
      checkScene(isa, makeScene(shape, {5, 266}, lengths, sequences, random), name + ", a prompt");
    }
    // The rows that check a draft: up to twice a tile's queries, across the end of a part.
    for (const Shape& shape : {Shape{2, 2, 64, KvType::f16, 0}, Shape{2, 2, 32, KvType::f32, 9}, Shape{1, 1, 64, KvType::int8, 0}, Shape{4, 2, 16, KvType::int8, 40}, Shape{4, 2, 64, KvType::f16, 0, 0, true}, Shape{2, 2, 32, KvType::fp8_e4m3, 0}, Shape{1, 1, 64, KvType::fp8_e5m2, 9}, Shape{2, 1, 64, KvType::fp4, 0}, Shape{2, 2, 24, KvType::fp4, 40}}) {
      for (int32_t numRows = 1; numRows <= 9; numRows++) {
        std::vector<int32_t> lengths = {5};
        for (int32_t i = 0; i < numRows; i++) lengths.push_back(253 + i);
        std::vector<int32_t> sequences(lengths.size(), 1);
        sequences[0] = 0;
        const std::string name = std::string("attention ") + isa + " " + std::to_string(numRows) + " rows of type " + std::to_string(static_cast<int>(shape.type));
        checkScene(isa, makeScene(shape, {5, 262}, lengths, sequences, random), name);
      }
    }
    for (const Shape& shape : {Shape{8, 2, 16, KvType::f16, 0, 2}, Shape{2, 2, 40, KvType::f32, 0}, Shape{12, 1, 8, KvType::int8, 0}, Shape{8, 2, 16, KvType::f16, 0, 0, true}, Shape{4, 1, 32, KvType::fp4, 0}}) checkShared(isa, shape, random);
    // A later token's broken value must not reach the rows before it.
    Scene scene = makeScene({2, 1, 8, KvType::f32, 0}, {20}, {}, {}, random);
    for (int32_t i = 1; i <= 20; i++) {
      scene.lengths.push_back(i);
      scene.sequences.push_back(0);
    }
    scene.q = random.values(20 * 16);
    scene.values[0][19 * 8] = NAN;
    scene.keys[0][19 * 8] = HUGE_VALF;
    std::vector<size_t> order(20);
    for (size_t i = 0; i < 20; i++) order[i] = i;
    const std::vector<float> got = runScene(isa, 2, scene, 8, order);
    check(std::none_of(got.begin(), got.begin() + 19 * 16, [](float value) { return !std::isfinite(value); }), std::string("unseen values stay unseen ") + isa);
  }
}

}  // namespace millrace::test
