// SPDX-License-Identifier: Apache-2.0
// errors.cpp: names and words for the codes that this driver gives.
// Invariant: a code that is not in the table is no code of this driver, and has neither name nor words.
#include <cuda.h>

namespace {

struct Word {
  CUresult code;
  const char *name, *text;
};

#define TN_CODE(code, text) \
  { code, #code, text }
constexpr Word words[] = {
    TN_CODE(CUDA_SUCCESS, "no error"),
    TN_CODE(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    TN_CODE(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    TN_CODE(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    TN_CODE(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    TN_CODE(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
    TN_CODE(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    TN_CODE(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    TN_CODE(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    TN_CODE(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    TN_CODE(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    TN_CODE(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    TN_CODE(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    TN_CODE(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    TN_CODE(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    TN_CODE(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    TN_CODE(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    TN_CODE(CUDA_ERROR_NOT_READY, "device not ready"),
    TN_CODE(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    TN_CODE(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    TN_CODE(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    TN_CODE(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    TN_CODE(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    TN_CODE(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    TN_CODE(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    TN_CODE(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    TN_CODE(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    TN_CODE(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    TN_CODE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    TN_CODE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    TN_CODE(CUDA_ERROR_STREAM_CAPTURE_MERGE,
            "operation would result in a merge of separate capture sequences"),
    TN_CODE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    TN_CODE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    TN_CODE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream"),
    TN_CODE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
            "operation would make the legacy stream depend on a capturing blocking stream"),
    TN_CODE(CUDA_ERROR_CAPTURED_EVENT,
            "operation not permitted on an event last recorded in a capturing stream"),
    TN_CODE(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
            "attempt to terminate a thread-local capture sequence from another thread"),
    TN_CODE(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef TN_CODE

CUresult find(CUresult code, const char** out, const char* Word::*field) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  for (const Word& word : words) {
    if (word.code != code) continue;
    *out = word.*field;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuGetErrorName(CUresult code, const char** name) { return find(code, name, &Word::name); }
CUresult cuGetErrorString(CUresult code, const char** text) { return find(code, text, &Word::text); }
