// The addon: createDevice, cpuFeatures, opSignatures and the methods of a device object
// (src/backend/cpu/library/kernels.ts). Translation only.
#include <node_api.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "../kernels/packed.h"
#include "../runtime/cpu.h"
#include "../runtime/device.h"
#include "values.h"

namespace millrace {
namespace {

// Marks objects whose wrapped pointer is ours.
constexpr napi_type_tag kDeviceTag = {0x6d696c6c72616365u, 0x6465766963650001u};

// Owned by a JavaScript device object.
struct DeviceHolder {
  std::unique_ptr<Device> device;  // null once destroyed
  std::unordered_map<double, napi_ref> views;
};

Device& deviceOf(const Arguments& args, DeviceHolder** holder = nullptr) {
  bool isDevice = false;
  void* wrapped = nullptr;
  if (napi_check_object_type_tag(args.env, args.self, &kDeviceTag, &isDevice) != napi_ok || !isDevice ||
      napi_unwrap(args.env, args.self, &wrapped) != napi_ok) {
    failArgument("expected a method called on its device, got another receiver");
  }
  DeviceHolder* found = static_cast<DeviceHolder*>(wrapped);
  if (found->device == nullptr) failArgument("expected a living device, got one that was destroyed");
  if (holder != nullptr) *holder = found;
  return *found->device;
}

// Keeps the memory of an ArrayBuffer alive. Node refuses a buffer that is too long for it by calling the finalizer
// before it reports the failure.
struct Lease {
  std::shared_ptr<Memory> memory;
  bool isTaken = false;
};

void releaseMemory(napi_env, void*, void* hint) {
  Lease* lease = static_cast<Lease*>(hint);
  if (lease->isTaken) delete lease;
}

// The ArrayBuffer shares ownership of the memory, so it never dangles, whatever is collected first.
napi_value makeView(napi_env env, const std::shared_ptr<Memory>& memory) {
  napi_value view;
  if (memory->numBytes() == 0) {
    void* data;
    require(napi_create_arraybuffer(env, 0, &data, &view), "create an ArrayBuffer");
    return view;
  }
  auto lease = std::make_unique<Lease>(Lease{memory});
  require(napi_create_external_arraybuffer(env, memory->data(), memory->numBytes(), releaseMemory, lease.get(), &view),
          "create an ArrayBuffer over native memory");
  lease->isTaken = true;
  lease.release();
  return view;
}

void detachView(napi_env env, napi_ref reference) {
  napi_value view = nullptr;
  if (napi_get_reference_value(env, reference, &view) == napi_ok && view != nullptr) napi_detach_arraybuffer(env, view);
  napi_delete_reference(env, reference);
}

napi_value allocate(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const Arguments args(env, info);
    return makeNumber(env, deviceOf(args).allocate(args.number(0, "byteLength")));
  });
}

napi_value view(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const Arguments args(env, info);
    DeviceHolder* holder;
    const double handle = args.number(0, "buffer");
    const std::shared_ptr<Memory>& memory = deviceOf(args, &holder).buffer(handle);
    const auto existing = holder->views.find(handle);
    napi_value result = nullptr;
    if (existing != holder->views.end()) {
      require(napi_get_reference_value(env, existing->second, &result), "find a view");
      return result;
    }
    result = makeView(env, memory);
    napi_ref reference;
    require(napi_create_reference(env, result, 1, &reference), "keep a view");
    holder->views.emplace(handle, reference);
    return result;
  });
}

napi_value release(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    const Arguments args(env, info);
    DeviceHolder* holder;
    const double handle = args.number(0, "buffer");
    Device& device = deviceOf(args, &holder);
    const std::shared_ptr<Memory> memory = device.buffer(handle);
    device.release(handle);
    const auto existing = holder->views.find(handle);
    if (existing != holder->views.end()) {
      detachView(env, existing->second);
      holder->views.erase(existing);
      // The detached view releases the memory only when the event loop turns, which is long after a load that converts
      // one matrix after another.
      if (memory.use_count() == 2) memory->discard();
    }
    return nullptr;
  });
}

// Between a buffer and a Uint8Array; a view of a whole buffer has a length limit, this has none.
napi_value copy(napi_env env, napi_callback_info info, bool isRead) {
  return guarded(env, [&]() -> napi_value {
    const Arguments args(env, info);
    const std::shared_ptr<Memory>& memory = deviceOf(args).buffer(args.number(0, "buffer"));
    const double byteOffset = args.number(1, "byteOffset");
    napi_typedarray_type type;
    size_t length;
    void* bytes;
    if (napi_get_typedarray_info(env, args.values[2], &type, &length, &bytes, nullptr, nullptr) != napi_ok || type != napi_uint8_array) {
      failArgument("expected bytes to be a Uint8Array, got something else");
    }
    const double last = static_cast<double>(memory->numBytes()) - static_cast<double>(length);
    if (!(byteOffset >= 0 && byteOffset <= last) || byteOffset != static_cast<double>(static_cast<int64_t>(byteOffset))) {
      failArgument("expected " + std::to_string(length) + " bytes inside a buffer of " + std::to_string(memory->numBytes()) + ", got them at " +
                   formatNumber(byteOffset));
    }
    uint8_t* place = memory->data() + static_cast<size_t>(byteOffset);
    if (length > 0) isRead ? memcpy(bytes, place, length) : memcpy(place, bytes, length);
    return nullptr;
  });
}

napi_value read(napi_env env, napi_callback_info info) { return copy(env, info, true); }

napi_value write(napi_env env, napi_callback_info info) { return copy(env, info, false); }

napi_value mapFile(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const Arguments args(env, info);
    return makeNumber(env, deviceOf(args).mapFile(args.string(0, "path")));
  });
}

napi_value unmapFile(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    const Arguments args(env, info);
    deviceOf(args).unmapFile(args.number(0, "file"));
    return nullptr;
  });
}

napi_value releasePages(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    const Arguments args(env, info);
    deviceOf(args).releasePages(args.number(0, "file"), args.number(1, "byteOffset"), args.number(2, "byteLength"), args.boolean(3, "isEvicted"));
    return nullptr;
  });
}

napi_value prefetch(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    const Arguments args(env, info);
    deviceOf(args).prefetch(args.number(0, "file"));
    return nullptr;
  });
}

napi_value checksum(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const Arguments args(env, info);
    const uint64_t sum = deviceOf(args).checksum(args.number(0, "source"), args.number(1, "byteOffset"), args.number(2, "byteLength"));
    char digits[17];
    snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(sum));
    return makeString(env, digits);
  });
}

napi_value requireUnchanged(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    const Arguments args(env, info);
    deviceOf(args).requireUnchanged(args.numbers(0, "shared"));
    return nullptr;
  });
}

napi_value pinThreads(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    const Arguments args(env, info);
    deviceOf(args).pinThreads(args.numbers(0, "cpus"));
    return nullptr;
  });
}

napi_value createWeight(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const Arguments args(env, info);
    const double weight = deviceOf(args).createWeight(args.number(0, "source"), args.number(1, "byteOffset"), args.string(2, "type"),
                                                      args.number(3, "rows"), args.number(4, "cols"), args.boolean(5, "isPacked"));
    return makeNumber(env, weight);
  });
}

napi_value createWeightStack(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const Arguments args(env, info);
    return makeNumber(env, deviceOf(args).createWeightStack(args.numbers(0, "weights")));
  });
}

napi_value releaseWeight(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    const Arguments args(env, info);
    deviceOf(args).releaseWeight(args.number(0, "weight"));
    return nullptr;
  });
}

napi_value submit(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    const Arguments args(env, info);
    Device& device = deviceOf(args);
    napi_typedarray_type type;
    size_t length;
    void* words;
    if (napi_get_typedarray_info(env, args.values[0], &type, &length, &words, nullptr, nullptr) != napi_ok || type != napi_float64_array) {
      failArgument("submit: expected program to be a Float64Array, got something else");
    }
    const double numWords = args.number(1, "numWords");
    if (!(numWords >= 0 && numWords <= static_cast<double>(length)) || numWords != static_cast<double>(static_cast<int64_t>(numWords))) {
      failArgument("submit: expected numWords to be an integer in [0, " + std::to_string(length) + "], got " + formatNumber(numWords));
    }
    device.submit(static_cast<const double*>(words), static_cast<int64_t>(numWords));
    return nullptr;
  });
}

napi_value kvBytes(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const Arguments args(env, info);
    const Device& device = deviceOf(args);
    napi_value object;
    require(napi_create_object(env, &object), "create an object");
    setProperty(env, object, "read", makeNumber(env, static_cast<double>(device.kvBytesRead())));
    setProperty(env, object, "unshared", makeNumber(env, static_cast<double>(device.kvBytesUnshared())));
    return object;
  });
}

napi_value destroy(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    const Arguments args(env, info);
    DeviceHolder* holder;
    deviceOf(args, &holder);
    for (const auto& entry : holder->views) detachView(env, entry.second);
    holder->views.clear();
    holder->device.reset();
    return nullptr;
  });
}

void finalizeDevice(napi_env env, void* data, void*) {
  DeviceHolder* holder = static_cast<DeviceHolder*>(data);
  for (const auto& entry : holder->views) napi_delete_reference(env, entry.second);
  delete holder;
}

napi_value createDevice(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const Arguments args(env, info);
    napi_value numThreads, isaValue, sharesKvReads;
    require(napi_get_named_property(env, args.values[0], "numThreads", &numThreads), "read options.numThreads");
    require(napi_get_named_property(env, args.values[0], "isa", &isaValue), "read options.isa");
    require(napi_get_named_property(env, args.values[0], "sharesKvReads", &sharesKvReads), "read options.sharesKvReads");
    bool isSharing = true;
    if (!isUndefined(env, sharesKvReads) && napi_get_value_bool(env, sharesKvReads, &isSharing) != napi_ok) {
      failArgument("createDevice: expected options.sharesKvReads to be a boolean, got something else");
    }
    const bool hasIsa = !isUndefined(env, isaValue);
    const std::string isa = hasIsa ? toString(env, isaValue, "options.isa") : std::string();

    auto holder = std::make_unique<DeviceHolder>();
    holder->device = std::make_unique<Device>(toNumber(env, numThreads, "options.numThreads"), hasIsa ? isa.c_str() : nullptr, isSharing);
    napi_value object;
    require(napi_create_object(env, &object), "create an object");
    setProperty(env, object, "isa", makeString(env, holder->device->isa()));
    setProperty(env, object, "numThreads", makeNumber(env, holder->device->numThreads()));
    constexpr struct {
      const char* name;
      napi_callback method;
    } kMethods[] = {{"allocate", allocate},         {"view", view},                   {"release", release},
                    {"read", read},                 {"write", write},
                    {"mapFile", mapFile},           {"unmapFile", unmapFile},         {"createWeight", createWeight},
                    {"releasePages", releasePages}, {"prefetch", prefetch},           {"pinThreads", pinThreads},
                    {"createWeightStack", createWeightStack}, {"releaseWeight", releaseWeight}, {"checksum", checksum},         {"requireUnchanged", requireUnchanged}, {"submit", submit}, {"kvBytes", kvBytes},             {"destroy", destroy}};
    for (const auto& entry : kMethods) setMethod(env, object, entry.name, entry.method);
    require(napi_type_tag_object(env, object, &kDeviceTag), "tag the device");
    require(napi_wrap(env, object, holder.get(), finalizeDevice, nullptr, nullptr), "wrap the device");
    holder.release();
    return object;
  });
}

napi_value cpuFeatures(napi_env env, napi_callback_info) {
  return guarded(env, [&] {
    const CpuFeatures features = detectCpu();
    napi_value object;
    require(napi_create_object(env, &object), "create an object");
    setProperty(env, object, "avx2", makeBoolean(env, features.avx2));
    setProperty(env, object, "fma", makeBoolean(env, features.fma));
    setProperty(env, object, "f16c", makeBoolean(env, features.f16c));
    setProperty(env, object, "avx512", makeBoolean(env, features.avx512));
    setProperty(env, object, "avx512vnni", makeBoolean(env, features.avx512vnni));
    setProperty(env, object, "avx512bf16", makeBoolean(env, features.avx512bf16));
    setProperty(env, object, "amx", makeBoolean(env, features.amx));
    setProperty(env, object, "neon", makeBoolean(env, features.neon));
    setProperty(env, object, "dotprod", makeBoolean(env, features.dotprod));
    return object;
  });
}

TensorType tensorTypeOf(const std::string& name) {
  for (int i = 0; i < kNumTensorTypes; i++) {
    if (name == kTensorTypes[i].name) return static_cast<TensorType>(i);
  }
  failArgument("expected type to be a tensor type, got " + name);
}

ActivationFormat activationFormatOf(const std::string& name) {
  int format = 0;
  for (const char* known : kActivationFormatNames) {
    if (name == known) return static_cast<ActivationFormat>(format);
    format++;
  }
  failArgument("expected format to be an activation format, got " + name);
}

bool hasPackedForm(TensorType type) { return packedInfoOf(type).cellBytes > 0; }

napi_value packedForm(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    const Arguments args(env, info);
    const TensorType type = tensorTypeOf(args.string(0, "type"));
    if (!hasPackedForm(type)) return nullptr;
    const PackedInfo form = packedInfoOf(type);
    napi_value object;
    require(napi_create_object(env, &object), "create an object");
    setProperty(env, object, "activations", makeString(env, kActivationFormatNames[static_cast<int>(form.activations)]));
    setProperty(env, object, "groupRows", makeNumber(env, static_cast<double>(packedRowsOf(type))));
    setProperty(env, object, "cellCols", makeNumber(env, form.cellValues));
    return object;
  });
}

napi_value packedByteLength(napi_env env, napi_callback_info info) {
  return guarded(env, [&]() -> napi_value {
    const Arguments args(env, info);
    const TensorType type = tensorTypeOf(args.string(0, "type"));
    if (!hasPackedForm(type)) return nullptr;
    const int64_t rows = static_cast<int64_t>(args.number(1, "rows"));
    const int64_t cols = static_cast<int64_t>(args.number(2, "cols"));
    return makeNumber(env, static_cast<double>(packedBytes(type, rows, cols)));
  });
}

napi_value activationBytes(napi_env env, napi_callback_info info) {
  return guarded(env, [&] {
    const Arguments args(env, info);
    const ActivationFormat format = activationFormatOf(args.string(0, "format"));
    return makeNumber(env, static_cast<double>(activationRowBytes(format, static_cast<int64_t>(args.number(1, "cols")))));
  });
}

napi_value packedLayoutVersion(napi_env env, napi_callback_info) {
  return guarded(env, [&] { return makeNumber(env, kPackedLayoutVersion); });
}

napi_value opSignatures(napi_env env, napi_callback_info) {
  return guarded(env, [&] {
    napi_value array;
    require(napi_create_array_with_length(env, kNumOps, &array), "create an array");
    for (uint32_t i = 0; i < kNumOps; i++) require(napi_set_element(env, array, i, makeString(env, kOpSignatures[i])), "fill an array");
    return array;
  });
}

}  // namespace
}  // namespace millrace

NAPI_MODULE_INIT() {
  return millrace::guarded(env, [&] {
    millrace::setMethod(env, exports, "createDevice", millrace::createDevice);
    millrace::setMethod(env, exports, "cpuFeatures", millrace::cpuFeatures);
    millrace::setMethod(env, exports, "opSignatures", millrace::opSignatures);
    millrace::setMethod(env, exports, "packedLayoutVersion", millrace::packedLayoutVersion);
    millrace::setMethod(env, exports, "packedForm", millrace::packedForm);
    millrace::setMethod(env, exports, "packedByteLength", millrace::packedByteLength);
    millrace::setMethod(env, exports, "activationRowBytes", millrace::activationBytes);
    return exports;
  });
}
