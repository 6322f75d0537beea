// The one exception type of the native side; `code` is one of the codes in src/core/errors.ts.
#pragma once
#include <string>
#include <utility>

namespace millrace {

struct Failure {
  const char* code;
  std::string message;
};

inline constexpr const char* kArgumentCode = "kernels_argument";
inline constexpr const char* kMemoryCode = "out_of_memory";
inline constexpr const char* kFileCode = "file_unreadable";
inline constexpr const char* kFileChangedCode = "model_file_changed";
inline constexpr const char* kIsaCode = "kernels_isa";

[[noreturn]] inline void failArgument(std::string message) { throw Failure{kArgumentCode, std::move(message)}; }

// A number as JavaScript would print it, nearly.
std::string formatNumber(double value);

}  // namespace millrace
