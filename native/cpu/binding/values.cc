// Value conversions over the C Node-API.
#include "values.h"

#include <exception>
#include <new>

namespace millrace {

void require(napi_status status, const char* what) {
  if (status != napi_ok) failArgument(std::string("expected to ") + what + ", got Node-API status " + std::to_string(status));
}

Arguments::Arguments(napi_env callEnv, napi_callback_info info) : env(callEnv), self(nullptr), values{} {
  size_t count = kMaxArguments;
  require(napi_get_cb_info(env, info, &count, values, &self, nullptr), "read a call's arguments");
}

double Arguments::number(size_t index, const char* name) const { return toNumber(env, values[index], name); }
std::string Arguments::string(size_t index, const char* name) const { return toString(env, values[index], name); }

std::vector<double> Arguments::numbers(size_t index, const char* name) const {
  uint32_t length;
  if (napi_get_array_length(env, values[index], &length) != napi_ok) failArgument(std::string("expected ") + name + " to be an array, got something else");
  std::vector<double> list;
  for (uint32_t i = 0; i < length; i++) {
    napi_value element;
    require(napi_get_element(env, values[index], i, &element), "read an array");
    list.push_back(toNumber(env, element, name));
  }
  return list;
}

bool Arguments::boolean(size_t index, const char* name) const {
  bool value = false;
  if (isUndefined(env, values[index])) return false;
  if (napi_get_value_bool(env, values[index], &value) != napi_ok) failArgument(std::string("expected ") + name + " to be a boolean, got something else");
  return value;
}

double toNumber(napi_env env, napi_value value, const char* name) {
  double number;
  if (napi_get_value_double(env, value, &number) != napi_ok) failArgument(std::string("expected ") + name + " to be a number, got something else");
  return number;
}

std::string toString(napi_env env, napi_value value, const char* name) {
  size_t length;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &length) != napi_ok) {
    failArgument(std::string("expected ") + name + " to be a string, got something else");
  }
  std::string text(length + 1, '\0');
  require(napi_get_value_string_utf8(env, value, &text[0], text.size(), &length), "read a string");
  text.resize(length);
  return text;
}

bool isUndefined(napi_env env, napi_value value) {
  napi_valuetype type;
  return napi_typeof(env, value, &type) != napi_ok || type == napi_undefined;
}

napi_value makeNumber(napi_env env, double value) {
  napi_value result;
  require(napi_create_double(env, value, &result), "create a number");
  return result;
}

napi_value makeString(napi_env env, const char* value) {
  napi_value result;
  require(napi_create_string_utf8(env, value, NAPI_AUTO_LENGTH, &result), "create a string");
  return result;
}

napi_value makeBoolean(napi_env env, bool value) {
  napi_value result;
  require(napi_get_boolean(env, value, &result), "create a boolean");
  return result;
}

void setProperty(napi_env env, napi_value object, const char* name, napi_value value) {
  require(napi_set_named_property(env, object, name, value), "set a property");
}

void setMethod(napi_env env, napi_value object, const char* name, napi_callback method) {
  napi_value function;
  require(napi_create_function(env, name, NAPI_AUTO_LENGTH, method, nullptr, &function), "create a function");
  setProperty(env, object, name, function);
}

void throwFailure(napi_env env, const Failure& failure) { napi_throw_error(env, failure.code, failure.message.c_str()); }

void throwCurrentException(napi_env env) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    napi_throw_error(env, kMemoryCode, "expected memory for bookkeeping, got none");
  } catch (const std::exception& error) {
    napi_throw_error(env, kArgumentCode, error.what());
  } catch (...) {
    napi_throw_error(env, kArgumentCode, "expected a known failure, got an unknown exception");
  }
}

}  // namespace millrace
