// Conversions between JavaScript values and C++ ones; whatever does not fit is a Failure with the name of the argument.
#pragma once
#include <node_api.h>

#include <string>
#include <vector>

#include "../runtime/failure.h"

namespace millrace {

// Arguments of one call.
constexpr size_t kMaxArguments = 6;
struct Arguments {
  napi_env env;
  napi_value self;
  napi_value values[kMaxArguments];  // missing ones are undefined

  Arguments(napi_env callEnv, napi_callback_info info);
  double number(size_t index, const char* name) const;
  std::string string(size_t index, const char* name) const;
  std::vector<double> numbers(size_t index, const char* name) const;
  // False when missing.
  bool boolean(size_t index, const char* name) const;
};

// Throws when a Node-API call fails; `what` names the call.
void require(napi_status status, const char* what);
napi_value makeNumber(napi_env env, double value);
napi_value makeString(napi_env env, const char* value);
napi_value makeBoolean(napi_env env, bool value);
void setProperty(napi_env env, napi_value object, const char* name, napi_value value);
void setMethod(napi_env env, napi_value object, const char* name, napi_callback method);
bool isUndefined(napi_env env, napi_value value);
double toNumber(napi_env env, napi_value value, const char* name);
std::string toString(napi_env env, napi_value value, const char* name);


void throwFailure(napi_env env, const Failure& failure);
void throwCurrentException(napi_env env);

// Runs `body`; a Failure becomes a JavaScript Error with its `code`.
template <typename Body>
napi_value guarded(napi_env env, Body body) {
  try {
    return body();
  } catch (const Failure& failure) {
    throwFailure(env, failure);
  } catch (...) {
    throwCurrentException(env);
  }
  return nullptr;
}

}  // namespace millrace
