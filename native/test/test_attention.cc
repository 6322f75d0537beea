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
  bool isHalf;
  int64_t window;
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
};

float stored(float value, bool isHalf) { return isHalf ? static_cast<float>(referenceFromHalf(referenceToHalf(value))) : value; }

Scene makeScene(const Shape& shape, const std::vector<int64_t>& sequenceLengths, const std::vector<int32_t>& lengths, const std::vector<int32_t>& sequences, Random& random) {
  Scene scene{shape, {}, {}, lengths, sequences, {}, 0.3f};
  for (int64_t length : sequenceLengths) {
    scene.keys.push_back(random.values(length * shape.numKvHeads * shape.headDim));
    scene.values.push_back(random.values(length * shape.numKvHeads * shape.headDim));
  }
  scene.q = random.values(static_cast<int64_t>(lengths.size()) * shape.numHeads * shape.headDim, 2.0f);
  return scene;
}

// Runs rows `order` of the scene with caches of `blockSize`; blocks are handed out in a scattered order, spare entries are NaN.
std::vector<float> runScene(const char* isa, int numThreads, const Scene& scene, int64_t blockSize, const std::vector<size_t>& order) {
  const Shape& shape = scene.shape;
  const int64_t perEntry = shape.numKvHeads * shape.headDim;
  int64_t stride = 1;
  int64_t numBlocks = 0;
  for (const auto& keys : scene.keys) {
    const int64_t blocks = (static_cast<int64_t>(keys.size()) / perEntry + blockSize - 1) / blockSize;
    stride = std::max(stride, blocks);
    numBlocks += blocks;
  }
  const int64_t valueBytes = shape.isHalf ? 2 : 4;
  std::vector<uint8_t> keyCache(static_cast<size_t>(numBlocks * blockSize * perEntry * valueBytes), 0xff);
  std::vector<uint8_t> valueCache = keyCache;
  std::vector<int32_t> tables(scene.keys.size() * static_cast<size_t>(stride), -1);
  int64_t next = numBlocks;
  for (size_t s = 0; s < scene.keys.size(); s++) {
    const int64_t length = static_cast<int64_t>(scene.keys[s].size()) / perEntry;
    for (int64_t position = 0; position < length; position++) {
      int32_t& block = tables[s * static_cast<size_t>(stride) + static_cast<size_t>(position / blockSize)];
      if (position % blockSize == 0) block = static_cast<int32_t>(--next);
      for (int64_t i = 0; i < perEntry; i++) {
        const int64_t at = ((block * shape.numKvHeads + i / shape.headDim) * blockSize + position % blockSize) * shape.headDim + i % shape.headDim;
        const auto put = [&](std::vector<uint8_t>& cache, float value) {
          const uint16_t half = referenceToHalf(value);
          memcpy(&cache[static_cast<size_t>(at * valueBytes)], shape.isHalf ? static_cast<const void*>(&half) : &value, static_cast<size_t>(valueBytes));
        };
        put(keyCache, scene.keys[s][static_cast<size_t>(position * perEntry + i)]);
        put(valueCache, scene.values[s][static_cast<size_t>(position * perEntry + i)]);
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
  Bench bench(isa, numThreads);
  const double out = bench.room(static_cast<int64_t>(q.size()) * 4);
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  bench.record(OpCode::pagedAttention, {out, bench.put(q), bench.put(keyCache), bench.put(valueCache), bench.put(lengths), bench.put(sequences), bench.put(tables),
                                        number(stride), number(static_cast<int64_t>(order.size())), number(shape.numHeads), number(shape.numKvHeads),
                                        number(shape.headDim), number(blockSize), shape.isHalf ? 0.0 : 1.0, scene.scale, number(shape.window)});
  bench.run();
  return bench.get<float>(out, static_cast<int64_t>(q.size()));
}

std::vector<double> expectedScene(const Scene& scene) {
  const Shape& shape = scene.shape;
  std::vector<double> result;
  for (size_t m = 0; m < scene.lengths.size(); m++) {
    const size_t s = static_cast<size_t>(scene.sequences[m]);
    const auto round = [&](std::vector<float> values) {
      for (float& value : values) value = stored(value, shape.isHalf);
      return values;
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
      const std::vector<double> one = referenceAttention(q, keyRows, valueRows, shape.headDim, scene.scale);
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
  for (int64_t blockSize : {1, 8, 32, 256}) check(sameBits(runScene(isa, 2, scene, blockSize, order), got), name + " in blocks of " + std::to_string(blockSize));
  check(sameBits(runScene(isa, 3, scene, 16, order), got), name + " on 3 threads");
  const size_t rowValues = static_cast<size_t>(scene.shape.numHeads * scene.shape.headDim);
  bool isSame = true;
  for (size_t m : order) {
    const std::vector<float> alone = runScene(isa, 1, scene, 16, {m});
    isSame = isSame && memcmp(alone.data(), &got[m * rowValues], rowValues * 4) == 0;
  }
  check(isSame, name + " row by row");
}

}  // namespace

void testAttention() {
  Random random(4);
  const Shape shapes[] = {{4, 2, 16, true, 0}, {3, 3, 7, false, 0}, {6, 1, 24, true, 20}, {2, 1, 64, false, 300}, {8, 2, 80, true, 0}};
  for (const char* isa : isas()) {
    for (const Shape& shape : shapes) {
      const std::string name = std::string("attention ") + isa + " " + std::to_string(shape.numHeads) + "/" + std::to_string(shape.numKvHeads) + " heads of " + std::to_string(shape.headDim);
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
    // A later token's broken value must not reach the rows before it.
    Scene scene = makeScene({2, 1, 8, false, 0}, {20}, {}, {}, random);
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
