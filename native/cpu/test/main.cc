// Runs every group; exits non-zero when a check failed.
#include "check.h"

int main() {
  using namespace millrace::test;
  try {
    group("files", testFiles);
    group("threads", testThreads);
    group("conversions", testConversions);
    group("dequantize", testDequantize);
    group("simple ops", testSimpleOps);
    group("recurrent", testRecurrent);
    group("linear", testLinear);
    group("packed", testPacked);
    group("attention", testAttention);
    group("sample", testSample);
    group("program", testProgram);
  } catch (const millrace::Failure& failure) {
    check(false, std::string("expected no failure, got ") + failure.code + ": " + failure.message);
  }
  printf("%lld passed, %lld failed\n", static_cast<long long>(totals().numPassed), static_cast<long long>(totals().numFailed));
  return totals().numFailed == 0 ? 0 : 1;
}
