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

// One head's vector as it is stored: its values' bytes, its scale (int8) and what is read back.
struct Stored {
  std::vector<uint8_t> bytes;
  float scale = 0;
  std::vector<float> values;
};

Stored store(const float* values, int64_t headDim, KvType type) {
  Stored result;
  float largest = 0;
  for (int64_t d = 0; d < headDim; d++) largest = std::max(largest, std::fabs(values[d]));
  if (type == KvType::int8) result.scale = largest / 127;
  const auto keep = [&](auto value, float readBack) {
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(&value);
    result.bytes.insert(result.bytes.end(), bytes, bytes + sizeof value);
    result.values.push_back(readBack);
  };
  for (int64_t d = 0; d < headDim; d++) {
    if (type == KvType::f16) {
      const uint16_t half = referenceToHalf(values[d]);
      keep(half, static_cast<float>(referenceFromHalf(half)));
    } else if (type == KvType::f32) {
      keep(values[d], values[d]);
    } else {
      const int8_t quantum = static_cast<int8_t>(result.scale > 0 ? std::nearbyint(values[d] / result.scale) : 0);
      keep(quantum, static_cast<float>(quantum) * result.scale);
    }
  }
  return result;
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
  const int64_t valueBytes = kv.valueBytes();
  std::vector<uint8_t> keyCache(static_cast<size_t>(numBlocks * blockSize * shape.numKvHeads * kv.entryBytes()), 0xff);
  std::vector<uint8_t> valueCache = keyCache;
  std::vector<int32_t> tables(scene.keys.size() * static_cast<size_t>(stride), -1);
  int64_t next = numBlocks;
  for (size_t s = 0; s < scene.keys.size(); s++) {
    const int64_t length = static_cast<int64_t>(scene.keys[s].size()) / perEntry;
    for (int64_t position = 0; position < length; position++) {
      int32_t& block = tables[s * static_cast<size_t>(stride) + static_cast<size_t>(position / blockSize)];
      if (position % blockSize == 0) {
        const bool isCommon = setting.isStoredOnce && s > 0 && position + blockSize <= scene.numShared;
        block = isCommon ? tables[static_cast<size_t>(position / blockSize)] : static_cast<int32_t>(--next);
      }
      for (int64_t head = 0; head < shape.numKvHeads; head++) {
        // Octets of eight entries: keys [headDim, 8], values [8, headDim], then the scales.
        const int64_t octet = ((block * shape.numKvHeads + head) * (blockSize / 8) + position % blockSize / 8) * 8 * kv.entryBytes();
        const int64_t lane = position % 8;
        const size_t from = static_cast<size_t>(position * perEntry + head * shape.headDim);
        const auto put = [&](std::vector<uint8_t>& cache, const float* values, bool isKey) {
          const Stored one = store(values, shape.headDim, shape.type);
          for (int64_t d = 0; d < shape.headDim; d++) {
            const int64_t at = octet + (isKey ? d * 8 + lane : lane * shape.headDim + d) * valueBytes;
            memcpy(&cache[static_cast<size_t>(at)], &one.bytes[static_cast<size_t>(d * valueBytes)], static_cast<size_t>(valueBytes));
          }
          if (shape.type == KvType::int8) memcpy(&cache[static_cast<size_t>(octet + 8 * shape.headDim + 4 * lane)], &one.scale, 4);
        };
        put(keyCache, &scene.keys[s][from], true);
        put(valueCache, &scene.values[s][from], false);
      }
    }
  }
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
  bench.record(OpCode::pagedAttention, {out, bench.put(q), bench.put(keyCache), bench.put(valueCache), bench.put(lengths), bench.put(sequences), bench.put(tables),
                                        number(stride), number(static_cast<int64_t>(order.size())), number(shape.numHeads), number(shape.numKvHeads),
                                        number(shape.headDim), number(blockSize), static_cast<double>(shape.type), scene.scale, number(shape.window), shape.cap, shape.hasSinks ? bench.put(sinksOf(shape)) : 0, 0});
  bench.run();
  return {bench.get<float>(out, static_cast<int64_t>(q.size())), bench.device.kvBytesRead(), bench.device.kvBytesUnshared()};
}

std::vector<float> runScene(const char* isa, int numThreads, const Scene& scene, int64_t blockSize, const std::vector<size_t>& order) {
  return runSetting(isa, {numThreads, blockSize, false, true}, scene, order).out;
}

std::vector<double> expectedScene(const Scene& scene) {
  const Shape& shape = scene.shape;
  std::vector<double> result;
  for (size_t m = 0; m < scene.lengths.size(); m++) {
    const size_t s = static_cast<size_t>(scene.sequences[m]);
    const auto round = [&](const std::vector<float>& values) {
      std::vector<float> result;
      for (size_t at = 0; at < values.size(); at += static_cast<size_t>(shape.headDim)) {
        const Stored one = store(&values[at], shape.headDim, shape.type);
        result.insert(result.end(), one.values.begin(), one.values.end());
      }
      return result;
    };
    const std::vector<float> keys = round(scene.keys[s]);
    const std::vector<float> values = round(scene.values[s]);
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
  check(isClose(got, expectedScene(scene), 3e-6, 3e-6), name + " equals the definition");
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

// Sequences that begin alike: however their blocks are stored and read, the bits are the same, and what is shared is read once.
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
  check(isClose(wanted, expectedScene(scene), 3e-6, 3e-6), name + " equal the definition");
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
  const Shape shapes[] = {{4, 2, 16, KvType::f16, 0}, {3, 3, 7, KvType::f32, 0}, {6, 1, 24, KvType::f16, 20}, {2, 1, 64, KvType::f32, 300}, {8, 2, 80, KvType::f16, 0}, {2, 1, 256, KvType::f16, 0}, {4, 2, 40, KvType::int8, 0}, {3, 1, 7, KvType::int8, 30}, {4, 2, 16, KvType::f16, 0, 1.5}, {3, 1, 7, KvType::f32, 300, 0.5}, {4, 2, 16, KvType::f16, 0, 0, true}, {3, 1, 7, KvType::int8, 300, 0, true}};
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
    for (const Shape& shape : {Shape{2, 2, 64, KvType::f16, 0}, Shape{2, 2, 32, KvType::f32, 9}, Shape{1, 1, 64, KvType::int8, 0}, Shape{4, 2, 16, KvType::int8, 40}, Shape{4, 2, 64, KvType::f16, 0, 0, true}}) {
      for (int32_t numRows = 1; numRows <= 9; numRows++) {
        std::vector<int32_t> lengths = {5};
        for (int32_t i = 0; i < numRows; i++) lengths.push_back(253 + i);
        std::vector<int32_t> sequences(lengths.size(), 1);
        sequences[0] = 0;
        const std::string name = std::string("attention ") + isa + " " + std::to_string(numRows) + " rows of type " + std::to_string(static_cast<int>(shape.type));
        checkScene(isa, makeScene(shape, {5, 262}, lengths, sequences, random), name);
      }
    }
    for (const Shape& shape : {Shape{8, 2, 16, KvType::f16, 0, 2}, Shape{2, 2, 40, KvType::f32, 0}, Shape{12, 1, 8, KvType::int8, 0}, Shape{8, 2, 16, KvType::f16, 0, 0, true}}) checkShared(isa, shape, random);
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
